// Package statustool makes asking the thing to do after an unknown outcome: one tool, get_status, tells what became of each
// protected call and of each job, gives the result, and says what to do next.
//
//	idem, err := mcpidem.New(server, store, cfg)
//	err = statustool.Add(idem, nil, store)                                         // get_status
//	err = statustool.Add(idem, &statustool.Config{Canceller: runner}, store, runner) // with jobs, and cancel_job
//	err = statustool.Add(idem, &statustool.Config{Outbox: box}, store)               // with what became of messages
//
// [Add] makes the tool from the tools that the server protects, before or after, and from the kinds of jobs that the
// sources know: their names are in its description and its input schema, the types of their answers in its output schema. The
// refusals of the protected tools point to it from then on, and package intent can ask it. [Handler] says the same over
// plain HTTP.
//
// # What is asked, and what is answered
//
// A question names a call or a job by its id, which stands in the call_id or job_id of an answer, or a call by its tool and its
// idempotency_key. With wait_seconds (up to [Config].MaxWait; what is out of range is taken for the nearest that is not) it
// waits for the end: as long as the state is queued or running. Progress does not end the wait, for a model pays for each
// answer; a client that gave a progress token hears of it meanwhile.
//
// An answer is a [Report], whatever was asked:
//
//	state        what it means                                         what next says
//	none         no record, and nobody is running it; or another's     repeat the same call, unless it was long ago
//	queued       the job waits for a worker or for its next attempt    wait here
//	running      it has not ended yet                                  wait here
//	succeeded    result has the answer                                 do not repeat; wait for the job, if it submitted one
//	failed       failure has the reason; nothing was changed           correct it, with a new key
//	cancelled    the job was cancelled; nothing was changed            a new key, to have it done after all
//	unknown      an attempt at an effect elsewhere was cut off         repeat the same call once
//	expired      it ended, and the answer is no longer kept            do not repeat
//	bad_args     the question cannot be understood                     correct it
//	no_caller    it is not known who asks                              for the people who run the server
//	unavailable  it cannot be found out at the moment                  ask again
//
// A failure whose code is handler_ended_tx is the exception: the tool ended its transaction itself, so it is not known what it did, and next
// says not to repeat it.
//
// The last three are errors (isError); what a call ended with is not one here. testdata/texts.golden has each text.
//
// # Messages
//
// With [Config].Outbox, the answer about a call or a job that has ended tells as well what became of the messages that it sent out
// of the database ([Report].Messages): the first 50, each with its state, and none of what is for operators (addresses, reasons,
// answers of receivers). next says that what is on its way goes by itself, and has people told where a message was not delivered, or
// may not have been; it never has a call repeated for that. The wait ends with the call or the job, not with its messages. What became
// of them is a second question, of one round trip, and its failure fails nothing: after 3 seconds at most the answer says
// messages_unavailable.
//
// # What it promises
//
// It changes nothing and delays nobody. What it says was so when it looked: a state that is succeeded, failed or cancelled does
// not change any more, and none is never said of a call that had committed when it was asked about, nor where a source could not
// look, as on a standby. An id of another caller and one that never was get the same answer, byte for byte; the caller is found
// out on each question anew.
//
// All who wait share one question to each source, for calls and for jobs, each [Config].Poll, and none while nobody waits; what changes in
// this process is looked for at once. Questions that do not wait travel together with those that arrive while others are under
// way. That takes three connections at most for each [Add] and each [Handler], for any number of askers, and two more where there
// is an outbox. One record that cannot be read fails nobody else's question, and a database that is away for a while does not
// end the wait.
//
// # Tasks
//
// With [Config].Tasks, a client that declares the extension io.modelcontextprotocol/tasks in a request of protocol version
// 2026-07-28 is answered with a task where a protected tool answers with the handle of a job (jobs.Handle). Its id is the
// job's, so tasks and get_status tell of the same rows, and a call that is made again gets the same task, which the extension
// itself does not promise. tasks/get, tasks/update (which has nothing to do) and tasks/cancel are served; a job that has failed is a
// completed task whose result is an error, as the extension wants it. With an outbox, what became of the job's messages stands in the
// result of its task beside the answer: in words, and in _meta["dev.txonce/messages"], or as "dev.txonce/messages-unavailable": true.
//
// # Limits
//
//   - How long a call is told of is the retention of its policy, and of a job that of its definition. After that it is none.
//   - Where protection is switched off (txidem.Policy.Disabled) calls leave nothing to be asked for. A tool for which it is off is
//     not among the tools here, and where it is off for the store, a call without a record is unavailable.
//   - What no source knows of is none. Where tools submit jobs, their runner must be among the sources.
//   - Of a call that runs and has no record yet, the tool is not known by its id alone.
//   - A call that has expired and was made again under the same key is the same call: the messages of the time before are told of as
//     well, and first, as long as the outbox keeps them.
//   - The sources are asked under a context that is nobody's. A hook that decides who may see a record
//     (txidem.Config.Authorize) must decide by the record and its scope, not by values in the context.
//   - A client must endure an answer that takes MaxWait, and so must the proxies before the server.
//   - Collisions of names are seen among the tools that the host knows. A tool that is put on the server without it is not seen,
//     and one of them replaces the other.
//   - The output schema allows any result beside those that the tools promise now, for records may be older. Schemas with
//     references ($ref) are left out.
//   - Tasks: no notifications (the SDK cannot send them), so clients poll, each second; ttlMs is null, for the time until a job is
//     gone depends on its end. The result of a task is the job's and not of the output schema of the tool, which is that of the
//     handle: where clients check it, give the tool a schema of its own that allows both. Middleware that takes each answer
//     of tools/call for a *mcp.CallToolResult must be added before Add.
//
// It may import toolcall, the MCP SDK and its JSON Schema. It knows neither txidem nor jobs nor outbox: a [Host], each
// toolcall.Source and a toolcall.MessageSource is an interface.
package statustool
