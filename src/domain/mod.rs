//! The words of the service: data that every layer shares, with no behaviour that touches the world.
//!
//! # Glossary
//!
//! | word | means |
//! |---|---|
//! | agent | immutable, versioned configuration |
//! | thread | the conversation runs append to |
//! | run | one durable execution on a thread |
//! | turn / attempt | one model exchange / one try at it |
//! | step | one entry of a thread's history: a task, one loop iteration, a retry, an answer |
//! | record | one thing the machine decided to write down; rows are made from records |
//! | memory | a thread's history in portable form |
//! | item, namespace, key | a JSON value that outlives threads / where it is / its name there |
//! | message, part | a request or response, and a typed piece of it |
//! | run message | what is said to a run under way; it waits for the next turn |
//! | block | what a part is lowered to |
//! | context block | a text of the operator under a name, told when it changes |
//! | tool call / outcome / result | what the model asked / how it ended / the part that tells the model |
//! | observation | the text rendered from an outcome |
//! | failure kind | why a call did not succeed |
//! | retry cause | `error` or `no_output` |
//! | effect class | `pure`, `idempotent`, `at_most_once` |
//! | input / effect | what happened outside / what must be under way |
//! | run event | what a stream subscriber receives |
//! | condition | what an argument must be for a person to be asked |
//! | lease, epoch, fence | the right to write a run, its number, the check |
//! | redaction, placeholder | replacing what must not leave the server / what stands in its place |
//! | secret, origin | a value that a tenant keeps here and nobody reads / where it may be sent |
//! | profile | what a model behind a transport can do |
//! | sub-run, parent, ancestors | a run that a call of another starts / that run / that run and those it was started for |
//! | webhook, delivery | an endpoint that events are told to / an event on its way there |
//! | skill, front matter | instructions and tools that are loaded when a task calls for them / what heads their file |
//! | format | what a server has to know to go on with a run |
//! | schedule, due time | a run that the clock starts / the moment when it does |
//! | tombstone | what is left of what was erased |
//! | budget, draw, hold | what runs may use up / what one run has of it / what is set aside |
//! | problem | an RFC 9457 answer |
//! | caller, tenant | who asks, for whom |

pub mod agent;
pub mod agent_tool;
pub mod budget;
pub mod builtin_tool;
pub mod caller;
pub mod condition;
pub mod diagnosis;
pub mod event;
pub mod fault;
pub mod file;
pub mod format;
pub mod id;
pub mod json;
pub mod json_schema;
pub mod label;
pub mod ledger;
pub mod limits;
pub mod line;
pub mod mcp;
pub mod memory;
pub mod memory_item;
pub mod message;
pub mod model;
pub mod money;
pub mod outcome;
pub mod page;
pub mod provider;
pub mod redaction;
pub mod request;
pub mod retry;
pub mod run;
pub mod run_message;
pub mod schedule;
pub mod script;
pub mod secret;
pub mod skill;
pub mod step;
pub mod sub_run;
pub mod tag;
pub mod thread;
pub mod tool;
pub mod usage;
pub mod wait;
pub mod webhook;
