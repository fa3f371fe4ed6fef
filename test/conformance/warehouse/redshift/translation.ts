import type { Socket } from 'node:net';
import { gunzipSync } from 'node:zlib';
import type { Sender } from '../suite/commit-proxy.ts';

/** Objects of a bucket. */
export interface Objects {
  /** Rejects where there is no such object. */
  read(key: string): Promise<Buffer>;
}

/** What Redshift has not, although PostgreSQL has it. */
const LACKS: readonly RegExp[] = [
  /\bon conflict\b/i,
  /\bsavepoint\b/i,
  /advisory/i,
  /\bon commit drop\b/i,
  /\bcreate (?:unique )?index\b/i,
  /add column if not exists/i,
  /add column [^,]*, *add column/i,
  /alter column/i,
  /\bany ?\(/i,
  /\[\]/,
  /::json|\bjsonb\b|json_agg|json_build/i,
  /\bpg_temp\b/i,
  /as boolean\)|::boolean/i,
  /\bmerge into\b/i,
];

/** The SQL for PostgreSQL. `json` stands for `super`: unlike that it keeps the text, which the tests compare. */
async function translate(sql: string, objects: Objects): Promise<string> {
  const lacks = LACKS.find((feature) => feature.test(sql));
  if (lacks !== undefined) return failing('0A000', `Redshift has no ${lacks.source}`);
  const copy =
    /^copy (\S+) from 's3:\/\/[^/]+\/([^']+)' (?:iam_role|access_key_id) .*manifest gzip format as json 'auto'/s.exec(
      sql,
    );
  if (copy !== null) return copied(copy[1] ?? '', copy[2] ?? '', objects);
  return sql
    .replace(/(?<!")\bsuper\b(?!")/g, 'json')
    .replace(/ diststyle key distkey \("[^"]+"\)/, '')
    .replace(/ sortkey \("[^"]+"\)/, '')
    .replace(/format_type\([^)]*\)/, (type) => `replace(${type}, 'json', 'super')`);
}

/** The rows of the files that a manifest names, as an insert. */
async function copied(table: string, manifest: string, objects: Objects): Promise<string> {
  try {
    const { entries } = JSON.parse(String(await objects.read(manifest))) as {
      readonly entries: readonly { readonly url: string; readonly mandatory: boolean }[];
    };
    const bodies = await Promise.all(
      entries.map(({ url }) => objects.read(url.replace(/^s3:\/\/[^/]+\//, ''))),
    );
    const lines = bodies.flatMap((body) => gunzipSync(body).toString('utf8').split('\n').slice(0, -1));
    const json = `[${lines.join(',')}]`.replaceAll("'", "''");
    return `insert into ${table} select * from json_populate_recordset(null::${table}, '${json}')`;
  } catch (error) {
    return failing('XX000', `S3ServiceException: NoSuchKey, Status 404 (${String(error)})`);
  }
}

function failing(state: string, text: string): string {
  return `do $$ begin raise exception '%', ${literal(text)} using errcode = '${state}'; end $$`;
}

const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;

/**
 * Functions of Redshift, for the database. It compares the rows of a load with those of a table by their hashes, for which PostgreSQL
 * knows too little of a table that it has just been given.
 */
export const FUNCTIONS = `
  alter database postgres set enable_nestloop = off;
  create or replace function public.json_parse(text) returns json language sql immutable as 'select $1::json';
  create or replace function public.json_serialize(json) returns text language sql immutable as 'select $1::text'`;

/** Sends PostgreSQL the messages of a client that speaks Redshift's SQL. */
export function translatorTo(engine: Socket, objects: Objects): Sender {
  let turn = Promise.resolve();
  let isStarted = false;
  let received = Buffer.alloc(0);
  const forward = async (message: Buffer) => {
    const type = String.fromCharCode(message[0] ?? 0);
    if (type === 'Q') engine.write(messageOf('Q', text(await translate(textIn(message, 5), objects))));
    else if (type === 'P') {
      const name = textIn(message, 5);
      const sql = textIn(message, 5 + Buffer.byteLength(name) + 1);
      const rest = message.subarray(5 + Buffer.byteLength(name) + 1 + Buffer.byteLength(sql) + 1);
      engine.write(messageOf('P', Buffer.concat([text(name), text(await translate(sql, objects)), rest])));
    } else engine.write(message);
  };
  return {
    send(chunk) {
      received = Buffer.concat([received, chunk]);
      while (true) {
        // The first message has no type.
        const head = isStarted ? 1 : 0;
        if (received.length < head + 4) return;
        const length = head + received.readInt32BE(head);
        if (received.length < length) return;
        const message = received.subarray(0, length);
        received = received.subarray(length);
        if (isStarted) turn = turn.then(() => forward(message));
        else engine.write(message);
        isStarted = true;
      }
    },
    sent: () => turn,
  };
}

const text = (of: string) => Buffer.from(`${of}\0`);

function textIn(message: Buffer, from: number): string {
  return message.toString('utf8', from, message.indexOf(0, from));
}

function messageOf(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type, 0, 'latin1');
  head.writeInt32BE(4 + body.length, 1);
  return Buffer.concat([head, body]);
}
