// Package txonce is the root of a library for people who give write tools to agents. It holds no code; start with
//
//   - [github.com/txonce/txonce/txidem]: one key, at most one committed effect, one answer;
//   - [github.com/txonce/txonce/txidem/mcpidem]: the same for the tools of an MCP server;
//   - [github.com/txonce/txonce/migrations]: the tables.
package txonce
