import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { pack } from '@tributary/core';
import type {
  ClaimAnswer,
  ClaimWrite,
  CommitAnswer,
  CommitWrite,
  GroupAnswer,
  GroupWrite,
  RecordsWrite,
} from './protocol.ts';
import { createRecordsTable, isSealed, recordsTable } from './segment-file.ts';

/** Where a partition's next record goes. */
interface Head {
  readonly topic: string;
  readonly partition: number;
  first: number;
  next: number;
  nextOrdinal: number;
  changed: boolean;
  insert: StatementSync | undefined;
}

/** A segment open for writing. What it remembers of the file it checks against the file in each transaction. */
export class OpenSegment {
  readonly sequence: number;
  readonly database: DatabaseSync;
  readonly createdAt: number;
  readonly #heads = new Map<string, Head>();
  readonly #version: StatementSync;
  readonly #pages: StatementSync;
  readonly #pageSize: number;
  readonly #allHeads: StatementSync;
  readonly #updateHead: StatementSync;
  readonly #movePosition: StatementSync;
  readonly #position: StatementSync;
  readonly #claim: StatementSync;
  /** The file's data version when what is remembered was true; undefined when it is to be read again. */
  #knownVersion: unknown;
  #versionInTransaction: unknown;
  #sealed = false;

  constructor(sequence: number, database: DatabaseSync) {
    this.sequence = sequence;
    this.database = database;
    this.#version = database.prepare('PRAGMA data_version');
    this.#pages = database.prepare('PRAGMA page_count');
    this.#pageSize = Number(database.prepare('PRAGMA page_size').get()?.page_size);
    this.createdAt = Number(database.prepare('SELECT created_at FROM segment').get()?.created_at);
    this.#allHeads = database.prepare('SELECT * FROM heads');
    this.#updateHead = database.prepare(
      'UPDATE heads SET next_offset = ?, next_ordinal = ? WHERE topic = ? AND partition = ?',
    );
    this.#movePosition = database.prepare(
      `UPDATE positions SET next_offset = ?, next_index = ?
       WHERE stage = ? AND topic = ? AND partition = ? AND generation = ? AND next_offset = ? AND next_index = ?`,
    );
    this.#position = database.prepare(
      'SELECT * FROM positions WHERE stage = ? AND topic = ? AND partition = ?',
    );
    this.#claim = database.prepare(
      `INSERT INTO positions (stage, topic, partition, next_offset, next_index, generation) VALUES (?, ?, ?, ?, 0, 1)
       ON CONFLICT DO UPDATE SET generation = generation + 1
       RETURNING next_offset, next_index, generation`,
    );
    this.refresh();
  }

  get sealed(): boolean {
    return this.#sealed;
  }

  /** True when the segment holds no record. */
  get empty(): boolean {
    return [...this.#heads.values()].every((head) => head.next === head.first);
  }

  /** Reads again what others may have changed; cheap when they did not. First thing in a transaction. */
  refresh(): void {
    const version = this.#version.get()?.data_version;
    if (this.#knownVersion === version) return;
    this.#sealed = isSealed(this.database);
    const gone = new Set(this.#heads.keys());
    for (const row of this.#allHeads.iterate()) {
      const [topic, partition] = [String(row.topic), Number(row.partition)];
      const head = this.#remember(topic, partition, Number(row.first_offset));
      head.first = Number(row.first_offset);
      head.next = Number(row.next_offset);
      head.nextOrdinal = Number(row.next_ordinal);
      head.changed = false;
      gone.delete(`${topic}/${partition}`);
    }
    for (const name of gone) this.#heads.delete(name);
    this.#knownVersion = version;
  }

  /** Writes the group. Until `committed()` nothing that was remembered is believed again. */
  write(group: GroupWrite, now: number): GroupAnswer {
    this.#versionInTransaction = this.#knownVersion;
    this.#knownVersion = undefined;
    const appends = group.appends.map((records) => this.#append(records, now));
    const commits = group.commits.map((commit) => this.#commit(commit, now));
    const claims = group.claims.map((claim) => this.#claimPartition(claim));
    for (const head of this.#heads.values()) {
      if (!head.changed) continue;
      this.#updateHead.run(head.next, head.nextOrdinal, head.topic, head.partition);
      head.changed = false;
    }
    return { appends, commits, claims };
  }

  /** The transaction of the last `write` is durable: what was remembered holds. */
  committed(): void {
    this.#knownVersion = this.#versionInTransaction;
  }

  bytes(): number {
    return Number(this.#pages.get()?.page_count) * this.#pageSize;
  }

  close(): void {
    this.database.close();
  }

  /** The offset of the first record. */
  #append({ topic, partition, keys, headers, counts, values }: RecordsWrite, now: number): number {
    const head = this.#head(topic, partition);
    head.insert ??= this.database.prepare(
      `INSERT INTO ${recordsTable(topic, partition)} (offset, ordinal, timestamp, key, headers, value)
       VALUES (?, ?, ?, ?, ?, ?)`,
    );
    const base = head.next;
    let at = 0;
    for (let record = 0; record < counts.length; record++) {
      const count = counts[record] ?? 0;
      const value = count === 1 ? values[at] : pack(values.slice(at, at + count));
      head.insert.run(
        head.next,
        head.nextOrdinal,
        now,
        keys[record] ?? '',
        headers[record] ?? '{}',
        value ?? '',
      );
      at += count;
      head.next++;
      head.nextOrdinal += count;
    }
    head.changed = true;
    return base;
  }

  #commit(commit: CommitWrite, now: number): CommitAnswer {
    const { stage, topic, partition, generation, from, to, emissions } = commit;
    const place = [stage, topic, partition] as const;
    const moved = this.#movePosition.run(to.offset, to.index, ...place, generation, from.offset, from.index);
    if (Number(moved.changes) === 1) return emissions.map((records) => this.#append(records, now));
    const stored = this.#position.get(...place);
    const done =
      stored?.generation === generation && stored.next_offset === to.offset && stored.next_index === to.index;
    // The same owner asks again for what was durable although its first answer was lost.
    return done ? [] : 'fenced';
  }

  #claimPartition({ stage, topic, partition, start }: ClaimWrite): ClaimAnswer {
    const row = this.#claim.get(stage, topic, partition, start);
    const committed = { offset: Number(row?.next_offset), index: Number(row?.next_index) };
    return { generation: Number(row?.generation), committed };
  }

  #head(topic: string, partition: number): Head {
    const known = this.#heads.get(`${topic}/${partition}`);
    if (known) return known;
    createRecordsTable(this.database, topic, partition);
    this.database.prepare('INSERT INTO heads VALUES (?, ?, 0, 0, 0)').run(topic, partition);
    return this.#remember(topic, partition, 0);
  }

  #remember(topic: string, partition: number, first: number): Head {
    const name = `${topic}/${partition}`;
    const known = this.#heads.get(name);
    if (known) return known;
    const head: Head = {
      topic,
      partition,
      first,
      next: 0,
      nextOrdinal: 0,
      changed: false,
      insert: undefined,
    };
    this.#heads.set(name, head);
    return head;
  }
}
