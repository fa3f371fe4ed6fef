import { type ColumnValue, EventLoopYielder } from '@tributary/core';
import type { Connection, PoolClient, Submittable } from 'pg';
import { socketOf } from '../../postgres/pool.ts';

/** Characters of a chunk. */
const CHUNK = 64 * 1_024;

/** Sends the rows of `COPY ... FROM STDIN`, each with its number in a first column, which begin with `first`. */
export async function copyRows(
  client: PoolClient,
  statement: string,
  rows: Iterable<readonly ColumnValue[]>,
  first: number,
): Promise<void> {
  const copy = client.query(new CopyIn(statement));
  const connection = await copy.started;
  const socket = socketOf(client);
  const yielder = new EventLoopYielder(() => performance.now());
  let chunk = '';
  let count = 0;
  const send = () => {
    connection.sendCopyFromChunk(Buffer.from(chunk));
    chunk = '';
  };
  try {
    for (const row of rows) {
      chunk += lineOf(first + count, row);
      count += 1;
      if (chunk.length < CHUNK) continue;
      send();
      if (socket.writableNeedDrain) await Promise.race([drained(socket), copy.done]);
      if (yielder.isYieldDue) await yielder.yield();
    }
  } catch (error) {
    connection.sendCopyFail('the rows cannot be made');
    await copy.done.catch(() => undefined);
    throw error;
  }
  send();
  connection.endCopyFrom();
  const copied = await copy.done;
  if (copied !== count) throw new Error(`the server took ${copied} of ${count} rows`);
}

/** One row of the text format. */
function lineOf(number: number, row: readonly ColumnValue[]): string {
  let line = `${number}`;
  for (const value of row) {
    if (value === null) line += '\t\\N';
    else if (typeof value === 'boolean') line += value ? '\tt' : '\tf';
    else line += SPECIAL.test(value) ? `\t${value.replace(ALL_SPECIAL, escaped)}` : `\t${value}`;
  }
  return `${line}\n`;
}

const SPECIAL = /[\\\n\r\t]/;
const ALL_SPECIAL = /[\\\n\r\t]/g;
const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function escaped(character: string): string {
  return ESCAPES[character] ?? character;
}

async function drained(socket: ReturnType<typeof socketOf>): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = () => {
      socket.off('drain', end);
      socket.off('close', end);
      resolve();
    };
    socket.on('drain', end);
    socket.on('close', end);
  });
}

/** What pg's connection has for copying; its types leave it out. */
interface CopyConnection {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(reason: string): void;
}

/** A statement `COPY ... FROM STDIN` as pg runs it. */
class CopyIn implements Submittable {
  readonly #statement: string;
  readonly #started = Promise.withResolvers<CopyConnection>();
  readonly #done = Promise.withResolvers<number>();
  #count = 0;

  constructor(statement: string) {
    this.#statement = statement;
    // Each is awaited by one place of `copyRows` only.
    this.#started.promise.catch(() => undefined);
    this.#done.promise.catch(() => undefined);
  }

  /** Resolves once rows can be sent. */
  get started(): Promise<CopyConnection> {
    return this.#started.promise;
  }

  /** Resolves with the rows that the server took. */
  get done(): Promise<number> {
    return this.#done.promise;
  }

  submit(connection: Connection): void {
    connection.query(this.#statement);
  }

  handleCopyInResponse(connection: CopyConnection): void {
    this.#started.resolve(connection);
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    this.#count = Number(/^COPY (\d+)$/.exec(text)?.[1] ?? Number.NaN);
  }

  handleReadyForQuery(): void {
    this.#done.resolve(this.#count);
  }

  handleError(error: Error): void {
    this.#started.reject(error);
    this.#done.reject(error);
  }
}
