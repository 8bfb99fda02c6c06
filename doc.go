// Package txonce is the root of a library for people who give write tools to agents. It holds no code; start with
//
//   - [github.com/txonce/txonce/txidem]: one key, at most one committed effect, one answer;
//   - [github.com/txonce/txonce/txidem/mcpidem]: the same for the tools of an MCP server;
//   - [github.com/txonce/txonce/txidem/httpidem]: the same for HTTP endpoints, and for webhooks that come in;
//   - [github.com/txonce/txonce/jobs]: tools that are too slow to be waited for;
//   - [github.com/txonce/txonce/outbox]: effects that leave the database;
//   - [github.com/txonce/txonce/statustool]: get_status, which asks instead of acting;
//   - [github.com/txonce/txonce/migrations]: the tables.
package txonce
