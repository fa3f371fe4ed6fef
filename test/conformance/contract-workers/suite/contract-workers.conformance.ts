import {
  type CanonicalEvent,
  type Contract,
  type ContractWorkers,
  checkSchema,
  createContractEvaluator,
  type JsonObject,
  MAX_EVENTS_A_TASK,
} from '@tributary/core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** Access of the suite to one adapter. */
export interface ContractWorkersHarness {
  readonly name: string;
  open(bounds: { readonly waitingEach?: number; readonly waiting?: number }): ContractWorkers;
}

const AT = '2026-03-01T00:00:00.000Z';
const times = <Item>(count: number, item: (at: number) => Item) =>
  Array.from({ length: count }, (_, at) => item(at));

export function contractOf(workspace_id: string, schema_definition: JsonObject, version = 1): Contract {
  return {
    id: `${workspace_id}-contract`,
    version,
    workspace_id,
    name: 'Paid',
    event_type: 'track',
    event_name: 'Paid',
    description: null,
    schema_definition,
    enforcement_mode: 'block',
    undeclared_fields: 'omit',
    status: 'active',
    created_by: 'someone',
    created_at: AT,
    updated_at: AT,
  };
}

export function paid(workspace_id: string, properties: JsonObject): CanonicalEvent {
  return {
    message_id: 'm',
    type: 'track',
    event: 'Paid',
    user_id: 'u',
    properties,
    timestamp: AT,
    received_at: AT,
    environment: 'production',
    workspace_id,
  };
}

const AMOUNT = { properties: { amount: { type: 'number', minimum: 0 } } };
const EVENTS = [{ amount: 1 }, { amount: -1, more: 1 }, { amount: 'x' }, { amount: 3, more: { a: 1 } }];

export function contractWorkersConformance({ name, open }: ContractWorkersHarness): void {
  describe(`contract workers: ${name}`, () => {
    let workers: ContractWorkers;
    beforeAll(() => {
      workers = open({});
    });
    afterAll(() => workers.close());

    it('find the same faults in a definition as checkSchema, and none in a valid one', async () => {
      for (const definition of [AMOUNT, { type: 'nothing' }, { properties: { a: { pattern: '(?=a)' } } }])
        expect(await workers.check('w', definition)).toEqual(checkSchema(definition));
    });

    it('return the verdicts of an evaluator, in the order of the events, for each contract', async () => {
      const { evaluate } = createContractEvaluator();
      const events = EVENTS.map((properties) => paid('w', properties));
      for (const contract of [contractOf('w', AMOUNT), contractOf('w', { type: 'object' })]) {
        const expected = events.map((event) => evaluate(contract, event));
        // In the second round the contract is already loaded.
        for (let round = 0; round < 2; round++)
          expect(await workers.evaluate(contract, events)).toEqual(expected);
      }
    });

    it('evaluate a contract again after hundreds of others', async () => {
      const first = contractOf('w', AMOUNT);
      const event = paid('w', { amount: -1 });
      const verdict = await workers.evaluate(first, [event]);
      for (const contract of times(210, (at) => contractOf('w', { minProperties: at + 5 }, at)))
        await workers.evaluate(contract, [event]);
      expect(await workers.evaluate(first, [event])).toEqual(verdict);
    });

    it('refuse a task with too many events', async () => {
      const events = times(MAX_EVENTS_A_TASK + 1, () => paid('w', {}));
      await expect(workers.evaluate(contractOf('w', AMOUNT), events)).rejects.toMatchObject({
        code: 'invalid_input',
      });
    });

    it('run workspaces in turn: a task runs before queued tasks of another workspace', async () => {
      const done: string[] = [];
      const note = (workspace: string) => () => void done.push(workspace);
      const greedy = times(40, (at) =>
        workers.check('greedy', { properties: { a: { minimum: at } } }).then(note('greedy')),
      );
      const modest = workers.check('modest', AMOUNT).then(note('modest'));
      await Promise.all([...greedy, modest]);
      expect(done.indexOf('modest')).toBeLessThan(5);
    });

    it('refuse queued tasks of a workspace beyond its bound, and accept those of another', async () => {
      const few = open({ waitingEach: 3, waiting: 100 });
      const asked = await Promise.allSettled([
        ...times(10, () => few.check('greedy', AMOUNT)),
        few.check('modest', AMOUNT),
      ]);
      await few.close();
      const refused = asked.filter(({ status }) => status === 'rejected');
      expect(refused.length).toBeGreaterThanOrEqual(6);
      for (const one of refused) expect(one).toMatchObject({ reason: { code: 'overloaded' } });
      expect(asked.at(-1)).toEqual({ status: 'fulfilled', value: [] });
    });

    it('drop queued tasks of a disconnected caller', async () => {
      const disconnecting = new AbortController();
      const running = workers.check('w', AMOUNT);
      const waiting = workers.check('w', AMOUNT, { disconnected: disconnecting.signal });
      disconnecting.abort();
      await expect(waiting).rejects.toMatchObject({ code: 'overloaded' });
      expect(await running).toEqual([]);
    });

    it('do not block the thread of their caller while they compile and evaluate', async () => {
      const definition = {
        properties: Object.fromEntries(times(990, (at) => [`f${at}`, { type: 'string' }])),
      };
      const definitions = times(10, (at) => ({ ...definition, title: `${at}` }));
      const loop = performance.eventLoopUtilization();
      for (const each of definitions) await workers.check('w', each);
      const { active } = performance.eventLoopUtilization(loop);
      const begun = performance.now();
      for (const each of definitions) checkSchema(JSON.parse(JSON.stringify(each)));
      expect(active).toBeLessThan((performance.now() - begun) / 2);
    });

    it('refuse tasks once they are closed, including queued ones', async () => {
      const closing = open({});
      const asked = times(5, () => closing.check('w', AMOUNT));
      for (const one of asked) one.catch(() => {});
      await closing.close();
      await expect(asked.at(-1)).rejects.toMatchObject({ code: 'unavailable' });
      await expect(closing.check('w', AMOUNT)).rejects.toMatchObject({ code: 'unavailable' });
    });
  });
}
