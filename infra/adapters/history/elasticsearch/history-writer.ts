import { type HistoryEntry, InvalidInput, Unavailable } from '@tributary/core';
import type { ElasticsearchConnection } from '../../elasticsearch/index.ts';
import { type ItemAnswer, outcomeOf } from './bulk-outcome.ts';
import { type Bulk, bulksOf, checkEntry, latest, type Placed } from './bulks.ts';
import type { PeriodIndices } from './period-indices.ts';

/** The writing half: every entry by its id into the index of its period, a lower version than the stored one ignored. */
export class HistoryWriter {
  readonly #connection: ElasticsearchConnection;
  readonly #indices: PeriodIndices;
  readonly #underWay = new Set<Promise<void>>();

  constructor(connection: ElasticsearchConnection, indices: PeriodIndices) {
    this.#connection = connection;
    this.#indices = indices;
  }

  put(entries: readonly HistoryEntry[]): Promise<void> {
    const done = this.#put(entries).finally(() => this.#underWay.delete(done));
    this.#underWay.add(done);
    return done;
  }

  /** Resolves when every put under way has ended, well or not. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#underWay);
  }

  async #put(entries: readonly HistoryEntry[]): Promise<void> {
    for (const entry of entries) checkEntry(entry);
    const placed: Placed[] = [];
    for (const entry of entries) placed.push({ entry, period: await this.#indices.periodOf(entry.at) });
    for (const bulk of bulksOf(latest(placed))) await this.#send(bulk);
  }

  async #send(bulk: Bulk): Promise<void> {
    for (const period of new Set(bulk.placed.map((one) => one.period))) await this.#indices.open(period);
    let answers: readonly ItemAnswer[];
    try {
      answers = await this.#request(bulk);
    } catch (error) {
      // One entry may have had all of them refused.
      if (!(error instanceof InvalidInput) || bulk.placed.length === 1) throw error;
      return this.#sendEach(bulk.placed);
    }
    const { homeless, fault } = outcomeOf(answers);
    for (const index of homeless) this.#indices.forget(bulk.placed[index]?.period ?? '');
    if (fault !== undefined) throw fault;
  }

  /** The answers to each entry, in their order. What is not answered for each was not put. */
  async #request({ placed, operations }: Bulk): Promise<readonly ItemAnswer[]> {
    const { items = [] } = await this.#connection.call((client) =>
      client.bulk({ operations: [...operations], filter_path: ['items.*.status', 'items.*.error.type'] }),
    );
    const answers = items.flatMap(({ index }) => (index === undefined ? [] : [index as ItemAnswer]));
    if (answers.length !== placed.length)
      throw new Unavailable('Elasticsearch did not answer for every entry');
    return answers;
  }

  /** Puts what can be put, one by one, and tells the first fault then. */
  async #sendEach(placed: readonly Placed[]): Promise<void> {
    let fault: InvalidInput | undefined;
    for (const bulk of placed.flatMap((one) => [...bulksOf([one])])) {
      try {
        await this.#send(bulk);
      } catch (error) {
        if (!(error instanceof InvalidInput)) throw error;
        fault ??= error;
      }
    }
    if (fault !== undefined) throw fault;
  }
}
