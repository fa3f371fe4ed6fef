import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Closed } from '../errors.ts';
import { DestinationAgents } from './agents.ts';

class FakeAgent {
  closes = 0;
  async close() {
    this.closes += 1;
  }
}

const IDLE_MS = 1_000;
let opened: FakeAgent[];
let agents: DestinationAgents<FakeAgent>;
const closes = () => opened.map((agent) => agent.closes);
const place = (id: string, version = 1) => ({ id, version });
const touch = (id: string, version = 1) => agents.use(place(id, version), async (agent) => agent);

/** A call that goes on until it is ended. */
function begin(id: string, version = 1) {
  const work = Promise.withResolvers<void>();
  const done = agents.use(place(id, version), () => work.promise);
  return async () => {
    work.resolve();
    await done;
  };
}

beforeEach(() => {
  vi.useFakeTimers();
  opened = [];
  const open = () => {
    const agent = new FakeAgent();
    opened.push(agent);
    return agent;
  };
  agents = new DestinationAgents({ open, idleMs: IDLE_MS, maxKept: 2 });
});
afterEach(async () => {
  await agents.close();
  vi.useRealTimers();
});

test('a destination keeps its agent, and has it alone', async () => {
  const first = await touch('a');
  expect(await touch('a')).toBe(first);
  expect(await touch('b')).not.toBe(first);
});

test('an idle agent is closed, counted from the end of its last call', async () => {
  await touch('a');
  await vi.advanceTimersByTimeAsync(IDLE_MS - 1);
  const end = begin('a');
  await vi.advanceTimersByTimeAsync(IDLE_MS * 3);
  await end();
  await vi.advanceTimersByTimeAsync(IDLE_MS - 1);
  expect(closes()).toEqual([0]);
  await vi.advanceTimersByTimeAsync(1);
  expect(closes()).toEqual([1]);
  expect(agents.size).toBe(0);
  expect(vi.getTimerCount()).toBe(0);
});

test('new settings begin with a new agent, and the old one ends with its last call', async () => {
  const end = begin('a', 1);
  const endOther = begin('a', 1);
  await touch('a', 2);
  await end();
  expect(closes()).toEqual([0, 0]);
  await endOther();
  expect(closes()).toEqual([1, 0]);
  expect(agents.size).toBe(1);
});

test('of too many the one unused for the longest goes, and none that is in use', async () => {
  const end = begin('a');
  await touch('b');
  await touch('c');
  expect(closes()).toEqual([0, 1, 0]);
  const endC = begin('c');
  await touch('d');
  expect(agents.size).toBe(3);
  await touch('e');
  expect(closes()).toEqual([0, 1, 0, 1, 0]);
  await Promise.all([end(), endC()]);
});

test('the surplus of a busy moment goes as others come', async () => {
  await Promise.all(['a', 'b', 'c', 'd'].map((id) => begin(id)).map((end) => end()));
  expect(agents.size).toBe(4);
  await touch('e');
  expect(agents.size).toBe(2);
  expect(closes()).toEqual([1, 1, 1, 0, 0]);
});

test('the close closes every agent once, in use or not, and gives out no more', async () => {
  const end = begin('a', 1);
  const endNew = begin('a', 2);
  await touch('b');
  await agents.close();
  expect(closes()).toEqual([1, 1, 1]);
  await Promise.all([end(), endNew()]);
  await agents.close();
  expect(closes()).toEqual([1, 1, 1]);
  expect(vi.getTimerCount()).toBe(0);
  await expect(touch('a')).rejects.toThrow(Closed);
});
