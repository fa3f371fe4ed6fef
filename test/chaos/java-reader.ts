import { spawn } from 'node:child_process';
import { describeMachine, kafkaProgram } from '../engines/index.ts';
import { COMPILED_PLAINLY } from '../engines/machine.ts';

/** A record as Kafka's own console consumer printed it. */
export interface PrintedRecord {
  readonly partition: number;
  readonly offset: number;
  readonly headers: ReadonlyMap<string, string>;
  /** Begins with five bytes of framing where a schema registry is in use. */
  readonly value: string;
}

/** Separators that no record contains: JSON writes control characters as escapes. */
const RECORD = '\u001e';
const FIELD = '\u001f';
const HEADER = '\u001d';

/** The reader assumes the end of a topic after this long without records. */
const QUIET_MS = 10_000;

export interface ReaderOptions {
  readonly brokers: string;
  readonly topic: string;
}

/**
 * Every committed record of a topic, as an independent reader sees it: Kafka's own console consumer, in Java,
 * from the beginning, with `read_committed`. Rejects when it fails, or reports another number of records than
 * it printed.
 */
export async function readCommitted<T>(
  { brokers, topic }: ReaderOptions,
  keep: (record: PrintedRecord) => T,
): Promise<readonly T[]> {
  const { java, classpath } = await kafkaProgram(describeMachine(process.env));
  const properties = {
    'print.partition': 'true',
    'print.offset': 'true',
    'print.headers': 'true',
    'key.separator': FIELD,
    'headers.separator': HEADER,
    'line.separator': RECORD,
  };
  const args = [
    ...['-Xmx256m', ...COMPILED_PLAINLY, '-XX:-UsePerfData', '-cp', classpath],
    'org.apache.kafka.tools.consumer.ConsoleConsumer',
    ...['--bootstrap-server', brokers, '--topic', topic, '--from-beginning'],
    ...['--isolation-level', 'read_committed', '--timeout-ms', String(QUIET_MS)],
    ...Object.entries(properties).flatMap(([name, value]) => ['--property', `${name}=${value}`]),
  ];
  const consumer = spawn(java, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  consumer.stderr.on('data', (chunk: Buffer) => {
    said = `${said}${chunk}`.slice(-8_000);
  });
  const records: T[] = [];
  let rest = '';
  consumer.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    const texts = `${rest}${chunk}`.split(RECORD);
    rest = texts.pop() ?? '';
    for (const text of texts) records.push(keep(parseRecord(text)));
  });
  await new Promise((resolve) => consumer.once('close', resolve));
  const processed = /Processed a total of (\d+) messages/.exec(said)?.[1];
  if (Number(processed) !== records.length || rest !== '') {
    const told = `it says ${processed ?? 'nothing'} and printed ${records.length}`;
    throw new Error(`the console consumer of ${topic}: ${told}\n${said}`);
  }
  return records;
}

/** `Partition:0<FIELD>Offset:12<FIELD>name:value<HEADER>name:value<FIELD>the value` */
export function parseRecord(text: string): PrintedRecord {
  const [partition = '', offset = '', headers = '', value] = text.split(FIELD);
  const found = {
    partition: /^Partition:(\d+)$/.exec(partition)?.[1],
    offset: /^Offset:(\d+)$/.exec(offset)?.[1],
  };
  if (found.partition === undefined || found.offset === undefined || value === undefined)
    throw new Error(`not a record of the console consumer: ${text.slice(0, 200)}`);
  return {
    partition: Number(found.partition),
    offset: Number(found.offset),
    headers: new Map(
      headers.split(HEADER).map((header) => {
        const colon = header.indexOf(':');
        return [header.slice(0, colon), header.slice(colon + 1)];
      }),
    ),
    value,
  };
}

/** The JSON of a value, with or without the framing of a schema registry. */
export function jsonOf<T>(value: string): T {
  return JSON.parse(value.slice(value.indexOf('{'))) as T;
}
