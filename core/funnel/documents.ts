import {
  ENVIRONMENT_CODES,
  ENVIRONMENT_OF_CODE,
  EVENT_TYPE_CODES,
  EVENT_TYPE_OF_CODE,
} from '../event/event.ts';
import {
  type BytesIncrement,
  type CountsBatch,
  FUNNEL_INTERVALS,
  type FunnelDimension,
  type FunnelFilter,
  type FunnelIncrement,
  type FunnelLatencies,
  MAX_FUNNEL_NAMES,
  MAX_VOLUME_NAMES,
  OTHER_NAME,
  type ScopeBytes,
} from '../ports/counters.ts';
import { lastSamples } from './counts.ts';

/*
 * How counts are stored, whatever the engine: documents. Each of the funnel holds the cells of one workspace, one interval
 * and one name, or of all names together; each of the volume one number. A batch reads the documents that it touches, adds to
 * them, and writes them back with the applied offset; the offset tells whether another process wrote them meanwhile.
 */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** `samples`: the message ids of an hour, apart from its counts, as most queries need only these. */
const CELL_DOCUMENTS = [...FUNNEL_INTERVALS, 'samples'] as const;
/** The bytes of a scope; those of all scopes in an interval are read at once. */
const BYTES_DOCUMENTS = ['bytes_hour', 'bytes_day'] as const;
/**
 * `volume`: the accepted events of a name. `runs`: a measure of the runs of a transformation, a number. `uses`: the last use
 * of a key, epoch ms. `…_0_2`: what release 0.2.0 counted on its own.
 */
export const COUNT_DOCUMENTS = [
  ...CELL_DOCUMENTS,
  ...BYTES_DOCUMENTS,
  'volume',
  'volume_0_2',
  'runs',
  'runs_0_2',
  'uses',
] as const;
export type CountDocumentKind = (typeof COUNT_DOCUMENTS)[number];

interface Keeping {
  readonly ms: number;
  /** How long after its start an interval is kept, ms. */
  readonly keptMs: number;
}

/** The logs that samples lead to are kept for seven days by default. */
const KEEPING: Readonly<Record<CountDocumentKind, Keeping>> = {
  minute: { ms: MINUTE_MS, keptMs: 2 * HOUR_MS },
  hour: { ms: HOUR_MS, keptMs: 32 * DAY_MS },
  day: { ms: DAY_MS, keptMs: 33 * DAY_MS },
  samples: { ms: HOUR_MS, keptMs: 8 * DAY_MS },
  bytes_hour: { ms: HOUR_MS, keptMs: 3 * HOUR_MS },
  bytes_day: { ms: DAY_MS, keptMs: 33 * DAY_MS },
  volume: { ms: HOUR_MS, keptMs: 32 * DAY_MS },
  volume_0_2: { ms: HOUR_MS, keptMs: 32 * DAY_MS },
  runs: { ms: HOUR_MS, keptMs: 32 * DAY_MS },
  runs_0_2: { ms: HOUR_MS, keptMs: 32 * DAY_MS },
  uses: { ms: HOUR_MS, keptMs: Number.POSITIVE_INFINITY },
};

/** The length of an interval of these documents, ms. */
export function documentStepMs(kind: CountDocumentKind): number {
  return KEEPING[kind].ms;
}

/** How long after the start of their interval documents are kept, ms. */
export function documentKeptMs(kind: CountDocumentKind): number {
  return KEEPING[kind].keptMs;
}

function isExpired(kind: CountDocumentKind, start: number, now: number): boolean {
  return start + KEEPING[kind].keptMs <= now;
}

/** The key of a document. `field`: the environment, and the type and name or the sum of all. */
export interface CountDocumentKey {
  readonly workspaceId: string;
  readonly kind: CountDocumentKind;
  /** Start of its interval, epoch ms. */
  readonly start: number;
  readonly field: string;
}

export interface CountDocument extends CountDocumentKey {
  readonly value: string;
}

const ALL_NAMES = '*';
/** The field of the document that counts the names of a day, and of the one that counts those of an hour's volume. */
const NAMES_FIELD = '#names';
/**
 * The fields of the documents that hold a day's names, summed over source, key, rule and destination. A query by name reads
 * these instead of a document for each name. Each has a share of the names, as a batch writes those of its names anew.
 */
const BY_NAME = '~';
const SHARES = 16;

/** Counts, or samples, of a document: by cell, then by measures. */
type Cells<Value> = Record<string, Record<string, Value>>;

/** Besides measures, a cell of counts may have this. */
const LATENCIES = 'ms';

export type StoredCounts = Cells<number | FunnelLatencies>;

/** Cells of a document that keep their source and key; and those that keep their rule and destination. */
const MAX_CELLS = 1_000;
const MAX_RULE_CELLS = 2_000;
const OTHER = OTHER_NAME;

/** The documents of a batch while they are added to. */
class OpenDocuments {
  readonly #stored: ReadonlyMap<string, string>;
  readonly #open = new Map<string, { readonly key: CountDocumentKey; readonly content: Cells<unknown> }>();

  constructor(stored: ReadonlyMap<string, string>) {
    this.#stored = stored;
  }

  has(key: CountDocumentKey): boolean {
    const name = documentName(key);
    return this.#open.has(name) || this.#stored.has(name);
  }

  /** Its content, to be changed. */
  content(key: CountDocumentKey): Cells<unknown> {
    const name = documentName(key);
    const known = this.#open.get(name);
    if (known !== undefined) return known.content;
    const text = this.#stored.get(name);
    const content = text === undefined ? {} : (JSON.parse(text) as Cells<unknown>);
    this.#open.set(name, { key, content });
    return content;
  }

  documents(): readonly CountDocument[] {
    return [...this.#open.values()].map(({ key, content }) => ({ ...key, value: JSON.stringify(content) }));
  }
}

/** The name of a document among those of a batch. */
export function documentName({ workspaceId, kind, start, field }: CountDocumentKey): string {
  return `${workspaceId} ${kind} ${start} ${field}`;
}

/** The documents that a batch may change, to be read before `applyIncrements`. */
export function documentsOf(
  { increments, bytes = [] }: Pick<CountsBatch, 'increments' | 'bytes'>,
  now: number,
): readonly CountDocumentKey[] {
  const keys = new Map<string, CountDocumentKey>();
  const add = (key: CountDocumentKey) => void keys.set(documentName(key), key);
  for (const increment of increments) {
    const { workspaceId, name, minute } = increment;
    const fields = [allField(increment)];
    if (name !== undefined) fields.push(nameField(increment, name), nameField(increment, OTHER));
    for (const kind of CELL_DOCUMENTS) {
      const start = startOf(kind, minute);
      if (isExpired(kind, start, now)) continue;
      for (const field of fields) add({ workspaceId, kind, start, field });
      if (kind !== 'day' || name === undefined) continue;
      for (const counted of [name, OTHER])
        add({ workspaceId, kind, start, field: byNameField(increment, counted) });
    }
    add(namesKey(workspaceId, minute));
    if (name !== undefined && isVolume(increment, now))
      for (const field of [...fields.slice(1), NAMES_FIELD]) add(volumeKey(increment, field));
  }
  for (const increment of bytes) for (const key of bytesKeys(increment, now)) add(key);
  return [...keys.values()];
}

/**
 * Adds increments to the stored documents (by `documentName`), and returns those that changed. The first
 * `MAX_FUNNEL_NAMES` names of a workspace and day are counted each; that depends on earlier batches alone, so a repeated
 * batch is counted in the same way.
 */
export function applyIncrements(
  { increments, bytes = [] }: Pick<CountsBatch, 'increments' | 'bytes'>,
  stored: ReadonlyMap<string, string>,
  now: number,
): readonly CountDocument[] {
  const documents = new OpenDocuments(stored);
  const volumes = new Map<string, CountDocumentKey>();
  for (const increment of increments) {
    const { workspaceId, minute } = increment;
    if (increment.name !== undefined && isVolume(increment, now)) {
      const volume = addVolume(increment, increment.name, documents);
      volumes.set(documentName(volume), volume);
    }
    const name = nameOf(increment, documents, now);
    const fields = name === undefined ? [] : [nameField(increment, name)];
    fields.push(allField(increment));
    for (const kind of CELL_DOCUMENTS) {
      const start = startOf(kind, minute);
      if (isExpired(kind, start, now)) continue;
      for (const field of fields) {
        const content = documents.content({ workspaceId, kind, start, field });
        const cell = cellIn(content, increment);
        if (kind === 'samples') addSamples(cell as Record<string, readonly string[]>, increment);
        else addCounts(cell as StoredCounts[string], increment);
      }
      if (kind !== 'day' || name === undefined) continue;
      const field = byNameField(increment, name);
      const content = documents.content({ workspaceId, kind, start, field }) as StoredCounts;
      const cellKey = `${EVENT_TYPE_CODES[increment.type]}|||||${name}`;
      content[cellKey] ??= {};
      addCounts(content[cellKey], increment);
    }
  }
  for (const volume of volumes.values()) addUncounted(volume, documents);
  for (const increment of bytes)
    for (const key of bytesKeys(increment, now)) addBytes(documents.content(key), increment);
  return documents.documents();
}

function isVolume({ name, measures, minute }: FunnelIncrement, now: number): boolean {
  return name !== undefined && isAccepted(measures) && !isExpired('volume', startOf('volume', minute), now);
}

function isAccepted(measures: string): boolean {
  return split(measures).includes('accepted');
}

function volumeKey({ workspaceId, minute }: FunnelIncrement, field: string): CountDocumentKey {
  return { workspaceId, kind: 'volume', start: startOf('volume', minute), field };
}

/** Adds to the volume of the hour, and returns its document. */
function addVolume(increment: FunnelIncrement, name: string, documents: OpenDocuments): CountDocumentKey {
  let key = volumeKey(increment, nameField(increment, name));
  if (name !== OTHER && !documents.has(key)) {
    const names = documents.content(volumeKey(increment, NAMES_FIELD)) as { names?: number };
    const counted = names.names ?? 0;
    if (counted < MAX_VOLUME_NAMES) names.names = counted + 1;
    else key = volumeKey(increment, nameField(increment, OTHER));
  }
  const content = documents.content(key) as { accepted?: number };
  content.accepted = (content.accepted ?? 0) + increment.count;
  return key;
}

/**
 * Makes the volume of a name at least what the funnel has of it: the stage `funnel` of release 0.2.0, before an upgrade and
 * beside this one, adds to the funnel alone.
 */
function addUncounted(volume: CountDocumentKey, documents: OpenDocuments): void {
  const hour = { ...volume, kind: 'hour' } as const;
  if (volume.field.slice(2) === OTHER || !documents.has(hour)) return;
  let accepted = 0;
  for (const cell of Object.values(documents.content(hour) as StoredCounts))
    for (const [measures, count] of Object.entries(cell))
      if (typeof count === 'number' && isAccepted(measures)) accepted += count;
  const content = documents.content(volume) as { accepted?: number };
  content.accepted = Math.max(content.accepted ?? 0, accepted);
}

/** The number in a document of the volume, and what it counts; undefined for the number of names. */
export function volumeIn({ field, value }: Pick<CountDocument, 'field' | 'value'>) {
  const environment = ENVIRONMENT_OF_CODE.get(field.charAt(0));
  const eventType = EVENT_TYPE_OF_CODE.get(field.charAt(1));
  if (environment === undefined || eventType === undefined) return undefined;
  const { accepted } = JSON.parse(value) as { accepted: number };
  return { environment, eventType, eventName: field.slice(2), count: accepted };
}

/** The documents that hold all runs of a transformation, in place of a workspace. */
export function runsOf(workspaceId: string, transformationId: string): string {
  return `${workspaceId}/${transformationId}`;
}

/** The workspace of documents of bytes and of uses, in place of an id: all together. */
export const ALL_SCOPES = '*';

function bytesKeys({ scope, hour }: BytesIncrement, now: number): readonly CountDocumentKey[] {
  return BYTES_DOCUMENTS.flatMap((kind) => {
    const start = startOf(kind, hour);
    return isExpired(kind, start, now) ? [] : [{ workspaceId: ALL_SCOPES, kind, start, field: scope }];
  });
}

/** A document of bytes has numbers and no cells. */
function addBytes(
  content: Record<string, unknown>,
  { received, written, expected = 0 }: BytesIncrement,
): void {
  content.received = Number(content.received ?? 0) + received;
  content.written = Number(content.written ?? 0) + written;
  if (expected !== 0) content.expected = Number(content.expected ?? 0) + expected;
}

/** The bytes in a document of them, whose fields are the scopes. */
export function bytesIn({ field, value }: Pick<CountDocument, 'field' | 'value'>): ScopeBytes {
  const { received = 0, written = 0, ...others } = JSON.parse(value) as Partial<ScopeBytes>;
  return { ...others, scope: field, received, written };
}

/** The name to count under; undefined where the increment has none. */
function nameOf(increment: FunnelIncrement, documents: OpenDocuments, now: number): string | undefined {
  const { workspaceId, minute, name } = increment;
  if (name === undefined || name === OTHER) return name;
  const start = startOf('day', minute);
  if (isExpired('day', start, now)) return undefined;
  if (documents.has({ workspaceId, kind: 'day', start, field: nameField(increment, name) })) return name;
  const names = documents.content(namesKey(workspaceId, minute)) as { all?: { names?: number } };
  const counted = names.all?.names ?? 0;
  if (counted >= MAX_FUNNEL_NAMES) return OTHER;
  names.all = { names: counted + 1 };
  return name;
}

function namesKey(workspaceId: string, minute: number): CountDocumentKey {
  return { workspaceId, kind: 'day', start: startOf('day', minute), field: NAMES_FIELD };
}

/** The cell of an increment, made where it is missing; one of many shares a cell with others. */
function cellIn(content: Cells<unknown>, increment: FunnelIncrement): Record<string, unknown> {
  const { source, key, rule, destination } = increment;
  const type = EVENT_TYPE_CODES[increment.type];
  let cellKey = [type, source, key, rule, destination].join('|');
  const known = content[cellKey];
  if (known !== undefined) return known;
  const cells = Object.keys(content).length;
  if (cells >= MAX_RULE_CELLS) cellKey = [type, OTHER, OTHER, OTHER, OTHER].join('|');
  else if (cells >= MAX_CELLS) cellKey = [type, OTHER, OTHER, rule, destination].join('|');
  const cell = content[cellKey] ?? {};
  content[cellKey] = cell;
  return cell;
}

function addCounts(cell: StoredCounts[string], increment: FunnelIncrement): void {
  const { measures, count, latencies } = increment;
  const known = cell[measures];
  cell[measures] = (typeof known === 'number' ? known : 0) + count;
  if (latencies !== undefined) cell[LATENCIES] = addedUp(cell[LATENCIES], latencies);
}

function addSamples(cell: Record<string, readonly string[]>, increment: FunnelIncrement): void {
  const { measures, samples } = increment;
  cell[measures] = lastSamples([...(cell[measures] ?? []), ...samples]);
}

function addedUp(known: number | FunnelLatencies | undefined, more: FunnelLatencies): FunnelLatencies {
  const sum: Record<string, number> = typeof known === 'object' ? { ...known } : {};
  for (const [bucket, count] of Object.entries(more)) sum[bucket] = (sum[bucket] ?? 0) + count;
  return sum;
}

function startOf(kind: CountDocumentKind, at: number): number {
  return at - (at % KEEPING[kind].ms);
}

function allField({ environment }: Pick<FunnelIncrement, 'environment'>): string {
  return `${ENVIRONMENT_CODES[environment]}${ALL_NAMES}`;
}

function nameField({ environment, type }: Pick<FunnelIncrement, 'environment' | 'type'>, name: string) {
  return `${ENVIRONMENT_CODES[environment]}${EVENT_TYPE_CODES[type]}${name}`;
}

function byNameField({ environment, type }: Pick<FunnelIncrement, 'environment' | 'type'>, name: string) {
  let hash = type.length;
  for (let at = 0; at < name.length; at++) hash = (hash * 31 + name.charCodeAt(at)) | 0;
  return `${ENVIRONMENT_CODES[environment]}${BY_NAME}${Math.abs(hash) % SHARES}`;
}

/** The dimensions that the documents of a day by name are summed over. */
const NOT_BY_NAME: readonly FunnelDimension[] = ['source', 'key', 'rule', 'destination'];

/**
 * The fields of the documents that a query reads of each interval: undefined for those of all names one by one (see
 * `isNameField`).
 */
export function fieldsToRead(
  kind: CountDocumentKind,
  filter: FunnelFilter,
  groupBy: readonly FunnelDimension[],
): readonly string[] | undefined {
  const environments = codesOf(ENVIRONMENT_CODES, filter.environment);
  if (filter.name !== undefined) {
    const { name } = filter;
    return environments.flatMap((e) => codesOf(EVENT_TYPE_CODES, filter.type).map((t) => `${e}${t}${name}`));
  }
  if (!groupBy.includes('name')) return environments.map((environment) => `${environment}${ALL_NAMES}`);
  const isOfNames = NOT_BY_NAME.every((each) => filter[each] === undefined && !groupBy.includes(each));
  if (kind !== 'day' || !isOfNames) return undefined;
  const shares = Array.from({ length: SHARES }, (_, share) => `${BY_NAME}${share}`);
  return environments.flatMap((environment) => shares.map((share) => `${environment}${share}`));
}

function codesOf(codes: Readonly<Record<string, string>>, word: string | undefined): readonly string[] {
  if (word === undefined) return Object.values(codes);
  const code = codes[word];
  return code === undefined ? [] : [code];
}

/** Whether a document is that of one name; the others are the sum of all names, and their number. */
export function isNameField(field: string): boolean {
  return EVENT_TYPE_OF_CODE.has(field.charAt(1));
}

/** One cell of a stored document. */
export interface StoredCell<Value> {
  readonly dimensions: Required<FunnelFilter>;
  readonly values: Readonly<Record<string, Value>>;
}

/** The cells of a document that a filter takes. */
export function* cellsIn<Value>(
  { field, value }: Pick<CountDocument, 'field' | 'value'>,
  filter: FunnelFilter,
): Iterable<StoredCell<Value>> {
  const environment = ENVIRONMENT_OF_CODE.get(field.charAt(0));
  if (environment === undefined || !takes(filter.environment, environment)) return;
  const ofName = isNameField(field) ? field.slice(2) : undefined;
  for (const [text, values] of Object.entries(JSON.parse(value) as Cells<Value>)) {
    const [code = '', source = '', key = '', rule = '', destination = '', ...rest] = text.split('|');
    const type = EVENT_TYPE_OF_CODE.get(code);
    if (type === undefined) continue;
    const name = ofName ?? rest.join('|');
    const dimensions = { environment, source, key, type, name, rule, destination };
    if (
      takes(filter.source, source) &&
      takes(filter.key, key) &&
      takes(filter.type, type) &&
      takes(filter.rule, rule) &&
      takes(filter.destination, destination)
    )
      yield { dimensions, values };
  }
}

function takes(wanted: string | undefined, found: string): boolean {
  return wanted === undefined || wanted === found;
}

/** Adds a cell to counts by measure and latencies by bucket. */
export function addCell(
  values: StoredCounts[string],
  counts: Record<string, number>,
  latencies: Record<string, number>,
): void {
  for (const measures in values) {
    const value = values[measures];
    if (typeof value === 'number') {
      for (const measure of split(measures)) counts[measure] = (counts[measure] ?? 0) + value;
    } else if (value !== undefined) {
      for (const bucket in value) latencies[bucket] = (latencies[bucket] ?? 0) + (value[bucket] ?? 0);
    }
  }
}

/** Texts of measures, split once: a query meets the same ones in each document. */
const splits = new Map<string, readonly string[]>();
const MAX_SPLITS = 10_000;

function split(measures: string): readonly string[] {
  const known = splits.get(measures);
  if (known !== undefined) return known;
  if (splits.size >= MAX_SPLITS) splits.clear();
  const parts = measures.split('+');
  splits.set(measures, parts);
  return parts;
}
