// The matrix's clients of Node.js: each cell is a function that uses a client as its own documentation does.
//
// `node clients.mjs ORIGIN ENGINE` prints one line of JSON for each cell.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { HttpAgent } from "@ag-ui/client";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const [ORIGIN, ENGINE] = process.argv.slice(2);
const BASE = `${ORIGIN}/v1`;
const MODEL = "support";
const HELLO = "Hello there, friend.";
const SUNNY = "It is sunny in Paris.";
const SYSTEM = "Sign as Slipway.";
const WEATHER = "What is the weather in Paris?";
const SUM = "What is 17*23?";
const CITY = "Which is the largest city of France?";
const FOR_EVER = "Go on for ever.";
const OVERFLOW = "overflow";
const BREAK = "Please break down.";
const City = z.object({ name: z.string(), population: z.number().int() });
const PARIS = { name: "Paris", population: 2100000 };
const PARAMETERS = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const DESCRIPTION = "The weather of a city.";

const cancelled = async () => (await (await fetch(`${ENGINE}/seen`)).json()).cancelled;
// The engine's generation has ended because its client has.
const untilCancelled = async (before) => {
  for (let i = 0; i < 100; i += 1) {
    if ((await cancelled()) > before) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail("the engine's generation was not cancelled");
};
// A question that the engine refuses once.
const retry = () => `Hello, retry-${randomUUID()}`;
const user = (content) => ({ role: "user", content });

class OpenAiNode {
  name = "openai-node";
  client = new OpenAI({ baseURL: BASE, apiKey: "none", maxRetries: 0 });

  ask(text, more = {}) {
    return this.client.chat.completions.create({ model: MODEL, messages: [user(text)], ...more });
  }
  async plain() {
    const [choice] = (await this.ask("Hi")).choices;
    assert.deepEqual([choice.message.content, choice.finish_reason], [HELLO, "stop"]);
  }
  async stream() {
    const parts = [];
    for await (const chunk of await this.ask("Hi", { stream: true })) parts.push(chunk.choices[0].delta.content ?? "");
    assert.equal(parts.join(""), HELLO);
    assert.ok(parts.length > 3, "it came in one part");
  }
  async system() {
    const messages = [{ role: "system", content: SYSTEM }, user("Write a signature.")];
    const answer = await this.client.chat.completions.create({ model: MODEL, messages });
    assert.equal(answer.choices[0].message.content, "Yours, Slipway");
  }
  async server_tools() {
    assert.equal((await this.ask(SUM)).choices[0].message.content, "17*23 is 391.");
  }
  async client_tools() {
    const definition = { name: "get_weather", description: DESCRIPTION, parameters: PARAMETERS };
    const runner = this.client.chat.completions.runTools({
      model: MODEL,
      messages: [user(WEATHER)],
      tools: [
        {
          type: "function",
          function: { ...definition, parse: JSON.parse, function: ({ city }) => `sunny in ${city}` },
        },
      ],
    });
    assert.equal(await runner.finalContent(), SUNNY);
  }
  async json_schema() {
    const response_format = zodResponseFormat(City, "city");
    const answer = await this.client.chat.completions.parse({ model: MODEL, messages: [user(CITY)], response_format });
    assert.deepEqual(answer.choices[0].message.parsed, PARIS);
  }
  async usage() {
    const { usage } = await this.ask("Hi");
    assert.deepEqual([usage.prompt_tokens, usage.completion_tokens, usage.total_tokens], [11, 3, 14]);
    let last;
    const stream = await this.ask("think", { stream: true, stream_options: { include_usage: true } });
    for await (const chunk of stream) last = chunk;
    assert.ok(last.usage.completion_tokens_details.reasoning_tokens > 0);
  }
  async error() {
    await assert.rejects(this.ask(BREAK), (error) => error.status === 502 && error.message.includes("EngineCore died"));
  }
  async overflow() {
    await assert.rejects(this.ask(OVERFLOW), (error) => error.code === "context_length_exceeded");
  }
  async cancel() {
    const before = await cancelled();
    const stream = await this.ask(FOR_EVER, { stream: true });
    for await (const chunk of stream) if (chunk.choices[0].delta.content) break;
    await untilCancelled(before);
  }
  async retry() {
    const client = this.client.withOptions({ maxRetries: 2 });
    const answer = await client.chat.completions.create({ model: MODEL, messages: [user(retry())] });
    assert.equal(answer.choices[0].message.content, HELLO);
  }
}

class AiSdk {
  name = "Vercel AI SDK";
  model = createOpenAICompatible({
    name: "slipway",
    baseURL: BASE,
    apiKey: "none",
    includeUsage: true,
    supportsStructuredOutputs: true,
  })(MODEL);

  ask(prompt, more = {}) {
    return generateText({ model: this.model, prompt, maxRetries: 0, ...more });
  }
  async plain() {
    const { text, finishReason } = await this.ask("Hi");
    assert.deepEqual([text, finishReason], [HELLO, "stop"]);
  }
  async stream() {
    const parts = [];
    for await (const part of streamText({ model: this.model, prompt: "Hi" }).textStream) parts.push(part);
    assert.equal(parts.join(""), HELLO);
    assert.ok(parts.length > 2, "it came in one part");
  }
  async system() {
    assert.equal((await this.ask("Write a signature.", { system: SYSTEM })).text, "Yours, Slipway");
  }
  async server_tools() {
    assert.equal((await this.ask(SUM)).text, "17*23 is 391.");
  }
  async client_tools() {
    const get_weather = tool({
      description: DESCRIPTION,
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => `sunny in ${city}`,
    });
    const { text, steps } = await this.ask(WEATHER, { tools: { get_weather }, stopWhen: stepCountIs(3) });
    assert.deepEqual([text, steps.length], [SUNNY, 2]);
  }
  async json_schema() {
    const { object } = await generateObject({ model: this.model, schema: City, prompt: CITY, maxRetries: 0 });
    assert.deepEqual(object, PARIS);
  }
  async usage() {
    const { usage } = await this.ask("Hi");
    assert.deepEqual([usage.inputTokens, usage.outputTokens, usage.totalTokens], [11, 3, 14]);
    const streamed = streamText({ model: this.model, prompt: "think" });
    for await (const _ of streamed.textStream);
    assert.equal((await streamed.reasoningText)?.trim(), "Hm, hello.");
    assert.ok((await streamed.usage).inputTokens === 11);
  }
  async error() {
    await assert.rejects(this.ask(BREAK), (error) => error.statusCode === 502 && error.message.includes("EngineCore died"));
  }
  async overflow() {
    await assert.rejects(
      this.ask(OVERFLOW),
      (error) => error.statusCode === 400 && error.responseBody.includes("context_length_exceeded"),
    );
  }
  async cancel() {
    const before = await cancelled();
    const abort = new AbortController();
    const { textStream } = streamText({ model: this.model, prompt: FOR_EVER, abortSignal: abort.signal, onError() {} });
    for await (const _ of textStream) {
      abort.abort();
      break;
    }
    await untilCancelled(before);
  }
  async retry() {
    assert.equal((await this.ask(retry(), { maxRetries: 2 })).text, HELLO);
  }
}

class AgUi {
  name = "@ag-ui/client";

  agent(messages) {
    const initialMessages = messages.map((message) => ({ id: randomUUID(), ...message }));
    return new HttpAgent({ url: `${BASE}/runs`, initialMessages });
  }
  async run(text, more = {}) {
    return this.agent([user(text)]).runAgent(more);
  }
  async plain() {
    const { newMessages } = await this.run("Hi");
    assert.deepEqual(newMessages.map((message) => message.content), [HELLO]);
  }
  async stream() {
    const parts = [];
    const onTextMessageContentEvent = ({ event }) => void parts.push(event.delta);
    await this.agent([user("Hi")]).runAgent({}, { onTextMessageContentEvent });
    assert.equal(parts.join(""), HELLO);
    assert.ok(parts.length > 2, "it came in one part");
  }
  async system() {
    const agent = this.agent([{ role: "system", content: SYSTEM }, user("Write a signature.")]);
    assert.equal((await agent.runAgent()).newMessages[0].content, "Yours, Slipway");
  }
  async server_tools() {
    const { newMessages } = await this.run(SUM);
    const roles = newMessages.map((message) => message.role);
    assert.deepEqual(roles, ["assistant", "tool", "assistant"]);
    assert.deepEqual(newMessages.slice(1).map((message) => message.content), ["391", "17*23 is 391."]);
  }
  async client_tools() {
    const tools = [{ name: "get_weather", description: DESCRIPTION, parameters: PARAMETERS }];
    const agent = this.agent([user(WEATHER)]);
    const { newMessages } = await agent.runAgent({ tools });
    const [call] = newMessages.at(-1).toolCalls;
    assert.deepEqual([call.function.name, JSON.parse(call.function.arguments)], ["get_weather", { city: "Paris" }]);
    agent.addMessage({ id: randomUUID(), role: "tool", toolCallId: call.id, content: "sunny" });
    assert.equal((await agent.runAgent({ tools })).newMessages.at(-1).content, SUNNY);
  }
  async json_schema() {
    return "the protocol has no format of answers; ask for one by a tool of the client's";
  }
  async usage() {
    let usage;
    await this.agent([user("Hi")]).runAgent({}, { onRunFinishedEvent: ({ event }) => void ([usage] = event.usage) });
    assert.deepEqual([usage.inputTokens, usage.outputTokens, usage.totalTokens], [11, 3, 14]);
  }
  async error() {
    let code;
    const onRunErrorEvent = ({ event }) => void (code = event.code);
    await this.agent([user(BREAK)]).runAgent({}, { onRunErrorEvent }).catch(() => undefined);
    assert.equal(code, "model_error");
  }
  async overflow() {
    let code;
    const onRunErrorEvent = ({ event }) => void (code = event.code);
    await this.agent([user(OVERFLOW)]).runAgent({}, { onRunErrorEvent }).catch(() => undefined);
    assert.equal(code, "context_length_exceeded");
  }
  async cancel() {
    const before = await cancelled();
    const agent = this.agent([user(FOR_EVER)]);
    const onTextMessageContentEvent = () => agent.abortRun();
    await agent.runAgent({}, { onTextMessageContentEvent }).catch(() => undefined);
    await untilCancelled(before);
  }
  async retry() {
    return "the client sends no request again by itself";
  }
}

const CELLS = [
  "plain", "stream", "system", "server_tools", "client_tools", "json_schema", "usage", "error", "overflow", "cancel",
  "retry",
];

for (const client of [new OpenAiNode(), new AiSdk(), new AgUi()]) {
  for (const cell of CELLS) {
    let reason = "";
    try {
      reason = (await client[cell]()) ?? "";
    } catch (error) {
      console.error(client.name, cell, error);
      reason = `${error.name}: ${error.message}`;
    }
    console.log(JSON.stringify({ client: client.name, cell, reason }));
  }
}
process.exit(0);
