import {
  BytesTally,
  type Catalog,
  type CountWritten,
  countsFormIn,
  countWritten,
  type EventLog,
  HEADER,
  type LoadRecord,
  type NewEntry,
  type ReplayStep,
  recordBytes,
  TOPIC,
} from '@tributary/core';

/** Appends records of loads and of the progress of backfills; the stage `history` stores them. Their bytes are counted. */
export class LoadRecords {
  readonly #log: Pick<EventLog, 'append'>;
  readonly #catalog: Pick<Catalog, 'state' | 'position'>;
  readonly #count: CountWritten;

  constructor(log: Pick<EventLog, 'append'>, catalog: Pick<Catalog, 'state' | 'position'>) {
    this.#log = log;
    this.#catalog = catalog;
    this.#count = countWritten(log, () => countsFormIn(catalog.state));
  }

  /** `storedBytes`: of rows that the load has put on the disk of this process. */
  append(record: LoadRecord, storedBytes = 0): Promise<void> {
    return this.#append(TOPIC.loads, record.destination_id, record.workspace_id, record, { storedBytes });
  }

  appendStep(step: ReplayStep): Promise<void> {
    const headers = { [HEADER.replay]: step.replay_id };
    return this.#append(TOPIC.replays, step.replay_id, step.workspace_id, step, { headers });
  }

  async #append(
    topic: string,
    key: string,
    workspaceId: string,
    value: object,
    more: { readonly headers?: NewEntry['headers']; readonly storedBytes?: number },
  ): Promise<void> {
    const headers = {
      [HEADER.catalogPosition]: String(this.#catalog.position),
      [HEADER.workspaceId]: workspaceId,
      ...more.headers,
    };
    const entry = { key, value: JSON.stringify(value), headers };
    await this.#log.append(topic, [entry]);
    const bytes = new BytesTally();
    bytes.written(workspaceId, recordBytes(entry) + (more.storedBytes ?? 0));
    await this.#count(bytes);
  }
}
