/** A figure of `docs/bench.md`: the first group of the pattern, in a row of a table or in the text of a section. */
export interface Figure {
  /** The heading of the section; '' is what stands above the first one. */
  readonly section: string;
  /** The first cell of the row. Default: the text of the section. */
  readonly row?: string;
  readonly pattern: RegExp;
}

const NUMBER = '[\\d,.]+';
const RATE = new RegExp(`^(${NUMBER}(?: - ${NUMBER})?)(?:/s| events/s)`);
const P50 = new RegExp(`^p50 (${NUMBER}) ms`);
const P99 = new RegExp(`p99 (${NUMBER}) ms`);
const KAFKA = 'On Kafka and Redis';
const NEIGHBOURS = `sixteen good ones took as many deliveries a second as without, (${NUMBER}) embedded and ${NUMBER} on Kafka, with p99`;

export const FIGURES: Readonly<Record<string, Figure>> = {
  'post-single': { section: '', row: 'POST one event, 64 connections', pattern: RATE },
  'post-batches': { section: '', row: 'POST batches of 100, 64 connections', pattern: RATE },
  'webhook-p50': { section: '', row: 'POST to webhook, 500 events/s', pattern: P50 },
  'webhook-p99': { section: '', row: 'POST to webhook, 500 events/s', pattern: P99 },
  pipeline: { section: '', row: 'pipeline end to end, counted and in files', pattern: RATE },
  memory: { section: '', row: 'memory over 1,000,000 events', pattern: /^([\d,]+) MiB/ },
  sandbox: { section: '', row: 'sandbox, one process, batches of 200', pattern: RATE },
  'hostile-p99': {
    section: '',
    pattern: new RegExp(`beside all hostile code .*?: p99 (${NUMBER}) ms, where it had`),
  },
  'deliver-single': { section: 'Deliver', row: 'deliver to a webhook, one by one', pattern: RATE },
  'neighbours-rate': { section: 'Deliver', pattern: new RegExp(NEIGHBOURS) },
  'neighbours-p99': {
    section: 'Deliver',
    pattern: new RegExp(`${NEIGHBOURS.replace(/\((.*?)\)/, '$1')} (${NUMBER}) ms`),
  },
  'neighbours-p99-alone': {
    section: 'Deliver',
    pattern: new RegExp(`${NEIGHBOURS.replace(/\((.*?)\)/, '$1')} ${NUMBER} ms instead of (${NUMBER})`),
  },
  'search-sqlite': { section: 'Profiles on SQLite', row: 'search by one identity', pattern: RATE },
  'kafka-single': { section: KAFKA, row: 'POST one event, 64 connections', pattern: RATE },
  'kafka-validate': { section: KAFKA, row: 'validate, 1 process, 12 partitions', pattern: RATE },
  'kafka-webhook-p50': { section: KAFKA, row: 'POST to webhook, 500 events/s', pattern: P50 },
  'kafka-webhook-p99': { section: KAFKA, row: 'POST to webhook, 500 events/s', pattern: P99 },
};

/** The figure in the text of `docs/bench.md`. Throws unless it is there exactly once. */
export function figureIn(bench: string, name: string, { section, row, pattern }: Figure): string {
  const text = sectionOf(bench, section);
  const searched = row === undefined ? [text.replaceAll(/\s+/g, ' ')] : rowsOf(text, row);
  const found = searched.map((part) => pattern.exec(part)?.[1]).filter((value) => value !== undefined);
  const [value] = found;
  if (value === undefined || found.length > 1)
    throw new Error(`docs/bench.md has ${found.length} of the figure ${name}, and it must have one`);
  return value;
}

/** The text below a heading of the second level, or above the first one. */
function sectionOf(text: string, heading: string): string {
  const parts = text.split(/^## /m);
  return parts.find((part, at) => (at === 0 ? heading === '' : part.startsWith(`${heading}\n`))) ?? '';
}

/** The second cells of the rows that begin with this cell. */
function rowsOf(text: string, first: string): readonly string[] {
  return text
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()))
    .filter(([, cell]) => cell === first)
    .map(([, , cell = '']) => cell);
}
