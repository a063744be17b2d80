// A journey through the API with the TypeScript SDK that @hey-api/openapi-ts makes of the document.

import assert from 'node:assert/strict';
import { client } from './gen/client.gen';
import { agentsCreate, memoryExport, runsCreateStream, runsGet, runsPostToolResults, runsStream } from './gen';
import type { AgentSpec, Problem, Run, RunStreamEvent } from './gen';

client.setConfig({ baseUrl: process.env.AGENTLING_URL!, auth: () => process.env.AGENTLING_KEY! });

const spec: AgentSpec = {
  name: 'traveller-ts',
  model: {
    provider: 'scripted',
    name: 'traveller-1',
    script: [
      { text: 'Let me ask.', chunks: 3, tool_calls: [{ name: 'ask_user', arguments: { question: 'Which city?' } }] },
      { tool_calls: [{ name: 'final_answer', arguments: { answer: 'It rains in Brest.' } }] },
    ],
  },
  tools: [
    {
      kind: 'client',
      name: 'ask_user',
      description: 'Asks the user.',
      parameters: { type: 'object', properties: { question: { type: 'string' } }, required: ['question'] },
    },
  ],
};

/** What the SDK reads of a stream: it yields the facts, and tells name and id by a call. */
type Told = { event?: string; id?: string; data: unknown };

function collector() {
  const events: RunStreamEvent[] = [];
  const onSseEvent = ({ event, id, data }: Told) => {
    if (event !== undefined) {
      events.push({ event, id: id === undefined ? undefined : Number(id), data } as RunStreamEvent);
    }
  };
  return { events, onSseEvent };
}

/** Narrows an event to one kind by its tag. */
function last<K extends RunStreamEvent['event']>(events: RunStreamEvent[], kind: K) {
  const found = events.filter((event) => event.event === kind).at(-1);
  assert(found, `no ${kind} in ${events.map((event) => event.event)}`);
  return found as Extract<RunStreamEvent, { event: K }>;
}

async function main() {
  // An agent.
  const agent = (await agentsCreate({ body: spec, throwOnError: true })).data;
  assert.equal(agent.tools?.[0]?.kind, 'client');

  // A run, streamed until it waits for its client.
  const begun = collector();
  const stop = new AbortController();
  const first = await runsCreateStream({
    body: { agent_id: agent.id, input: 'Weather?' },
    signal: stop.signal,
    sseMaxRetryAttempts: 1,
    onSseEvent: begun.onSseEvent,
  });
  for await (const _ of first.stream) {
    if (begun.events.at(-1)?.event === 'run.requires_action') break;
  }
  stop.abort();
  let text = '';
  for (const event of begun.events) {
    if (event.event === 'text.delta') text += event.data.text;
  }
  assert.equal(text, 'Let me ask.');
  const waiting = last(begun.events, 'run.requires_action');
  const run: Run = waiting.data;
  assert.equal(run.requires_action?.reason, 'tool_results');
  const call = run.requires_action?.tool_calls?.[0];
  assert(call);

  // The tool's result, and the rest of the run.
  await runsPostToolResults({
    path: { run_id: run.id },
    body: { results: [{ tool_call_id: call.tool_call_id, output: 'Brest' }] },
    throwOnError: true,
  });
  const rest = collector();
  const second = await runsStream({
    path: { run_id: run.id },
    headers: { 'Last-Event-ID': waiting.id },
    onSseEvent: rest.onSseEvent,
  });
  for await (const _ of second.stream);
  assert.equal(last(rest.events, 'run.completed').data.answer, 'It rains in Brest.');
  const ended = (await runsGet({ path: { run_id: run.id }, throwOnError: true })).data;
  assert.equal(ended.status, 'completed');

  // The memory.
  const memory = (await memoryExport({ path: { thread_id: run.thread_id }, throwOnError: true })).data;
  assert(!Array.isArray(memory), 'a document, since no list of messages was asked for');
  assert(Array.isArray(memory.steps) && memory.steps.length >= 3);

  // Problems, as the type that the document gives them.
  const missing = await runsGet({ path: { run_id: 'run_0198f2c4a1b27cde8f00112233445566' } });
  const problem: Problem | undefined = missing.error;
  assert.equal(missing.response?.status, 404);
  assert.equal(problem?.type, '/problems/not-found');
  const refused = (await agentsCreate({ body: { ...spec, loop_limit: 1 } })).error;
  assert.equal(refused?.type, '/problems/validation-failed');
  const pointers = refused?.errors?.map((finding) => finding.pointer) ?? [];
  assert.deepEqual(pointers, ['/loop_limit']);

  console.log(
    `typescript: ${begun.events.length} events and then ${rest.events.length}, ${memory.steps.length} steps, 2 problems`,
  );
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
