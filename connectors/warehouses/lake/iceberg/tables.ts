import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Clock, mapConcurrently, newId, Unavailable, WarehouseRefused } from '@tributary/core';
import { isInLake, type LakeStore } from '../store.ts';
import {
  added,
  kept,
  type Manifest,
  type ManifestEntry,
  type ManifestHeader,
  type NewFile,
  readManifest,
  readManifestList,
  removed,
  type SnapshotNumbers,
  type TableFile,
  writeManifest,
  writeManifestList,
} from './manifests.ts';
import {
  checkVersion,
  longJson,
  MAIN,
  type RestCatalog,
  type Snapshot,
  type TableMetadata,
} from './rest-catalog.ts';

/** Small manifests of a snapshot from which on they are merged into one, and the files of a small one. */
const MERGED_MANIFESTS = 100;
const SMALL_MANIFEST = 1_000;
/** How often it is looked whether a commit of an unknown result is there, and how long between two looks, ms. */
const LOOKS = 5;
const LOOK_MS = 200;
/** Manifests that are read at a time. */
const AT_ONCE = 8;
/** Files of manifests that are remembered: a manifest never changes. */
const REMEMBERED_FILES = 50_000;

type Document = Readonly<Record<string, unknown>>;

/** A change of a table in one commit. Without files and properties it is one of the schema alone, and makes no snapshot. */
export interface TableChanges {
  readonly operation: 'append' | 'delete' | 'overwrite' | 'replace';
  readonly add?: readonly NewFile[];
  /** Paths of files that the table has. */
  readonly remove?: ReadonlySet<string>;
  /** The schema from then on. */
  readonly schema?: Document;
  readonly properties?: Readonly<Record<string, string>>;
  /** What the snapshot says of itself. */
  readonly summary?: Readonly<Record<string, string>>;
}

/**
 * Tables of one namespace: their metadata in a catalog, their files in a store. A commit is conditioned on the snapshot and the
 * schema that it was made for, so that one whose answer was lost cannot become effective once the table has changed.
 */
export class IcebergTables {
  readonly catalog: RestCatalog;
  readonly #store: LakeStore;
  readonly #clock: Clock;
  /** By path, the one that was used last at the end. */
  readonly #manifests = new Map<string, readonly TableFile[]>();
  #remembered = 0;

  constructor(catalog: RestCatalog, store: LakeStore, clock: Clock) {
    this.catalog = catalog;
    this.#store = store;
    this.#clock = clock;
  }

  /** The data files of a snapshot, of those manifests that `isWanted` keeps. */
  async files(
    snapshot: Snapshot | undefined,
    signal: AbortSignal,
    isWanted: (manifest: Manifest) => boolean = () => true,
  ): Promise<readonly TableFile[]> {
    return this.filesOf((await this.manifests(snapshot, signal)).filter(isWanted), signal);
  }

  /** The data files that manifests have. */
  async filesOf(all: readonly Manifest[], signal: AbortSignal): Promise<readonly TableFile[]> {
    const manifests = all.filter(({ files, isOfDeletes }) => files > 0 && !isOfDeletes);
    return (await mapConcurrently(manifests, AT_ONCE, (one) => this.#filesOf(one, signal))).flat();
  }

  async manifests(snapshot: Snapshot | undefined, signal: AbortSignal): Promise<readonly Manifest[]> {
    if (snapshot === undefined) return [];
    const bytes = await this.read(snapshot.manifestList, signal);
    return this.#understood(snapshot.manifestList, () => readManifestList(bytes));
  }

  /** A file of a table; `Unavailable` where it is gone. */
  async read(path: string, signal: AbortSignal): Promise<Uint8Array> {
    const bytes = await this.#store.read(this.nameOf(path), signal);
    // Somebody expired the snapshot that it is of.
    if (bytes === undefined) throw new Unavailable(`${this.nameOf(path)} is gone`);
    return bytes;
  }

  /** The name in the store of a file that metadata names. What is elsewhere is neither read nor removed. */
  nameOf(path: string): string {
    const name = withinRoot(path, this.#store.root);
    if (name === undefined)
      throw new WarehouseRefused(
        `${path.slice(0, 200)} is not below ${this.#store.root}: the tables must be there`,
      );
    return name;
  }

  /**
   * The table as it is then. `conflict`: it is not as it was, so nothing is committed. `unknown`: it was not committed when it was
   * looked for, but may be until the table has another snapshot. Rejects where nothing can be found out.
   */
  async commit(
    name: string,
    base: TableMetadata,
    changes: TableChanges,
    signal: AbortSignal,
  ): Promise<TableMetadata | 'conflict' | 'unknown'> {
    checkVersion(name, base);
    const { add, remove, schema, properties } = changes;
    const numbers = {
      id: BigInt.asUintN(63, randomBytes(8).readBigUInt64LE()),
      parent: base.current?.id,
      sequence: base.lastSequence + 1n,
    };
    const written: string[] = [];
    const hasSnapshot = (add ?? remove ?? properties) !== undefined;
    const snapshot = hasSnapshot ? await this.#snapshot(base, numbers, changes, written, signal) : [];
    if (snapshot === undefined) return 'conflict';
    const ofSchema = [
      { action: 'add-schema', schema },
      { action: 'set-current-schema', 'schema-id': -1 },
    ];
    const requirements = [
      { type: 'assert-table-uuid', uuid: base.uuid },
      { type: 'assert-current-schema-id', 'current-schema-id': base.schemaId },
      {
        type: 'assert-ref-snapshot-id',
        ref: MAIN,
        'snapshot-id': base.current === undefined ? null : longJson(base.current.id),
      },
    ];
    const updates = [
      ...(schema === undefined ? [] : ofSchema),
      ...snapshot,
      ...(properties === undefined ? [] : [{ action: 'set-properties', updates: properties }]),
    ];
    // The catalog must not name files that a crash may still take away.
    if (written.length > 0) await this.#store.settle(signal);
    const result = await this.catalog.commit(name, { requirements, updates }, signal);
    if (result.state === 'committed') return result.table;
    if (result.state === 'unknown') return this.#committed(name, numbers.id, result.reason, signal);
    for (const one of written) await this.#store.remove(one, signal);
    return 'conflict';
  }

  /** After a commit without an answer: the table, where it has the snapshot. */
  async #committed(
    name: string,
    id: bigint,
    reason: string,
    signal: AbortSignal,
  ): Promise<TableMetadata | 'unknown'> {
    for (let look = 1; ; look++) {
      await sleep(LOOK_MS);
      try {
        const table = await this.catalog.table(name, 'all', signal);
        return table?.snapshots.has(id) ? table : 'unknown';
      } catch (error) {
        if (!(error instanceof Unavailable) || signal.aborted || look >= LOOKS)
          throw new Unavailable(reason, { cause: error });
      }
    }
  }

  /** Writes the files of a snapshot; the updates that make it. Undefined where the table lacks a file that is removed. */
  async #snapshot(
    base: TableMetadata,
    numbers: SnapshotNumbers,
    { operation, add = [], remove = new Set(), schema, summary = {} }: TableChanges,
    written: string[],
    signal: AbortSignal,
  ): Promise<readonly Document[] | undefined> {
    const put = async (what: string, make: (path: string) => Uint8Array) => {
      const path = `${base.location}/metadata/${what}-${newId()}.avro`;
      written.push(this.nameOf(path));
      await this.#store.put(this.nameOf(path), make(path), signal);
      return path;
    };
    const write = async (header: ManifestHeader, entries: readonly ManifestEntry[]) => {
      const made: Manifest[] = [];
      await put('manifest', (path) => {
        const { bytes, manifest } = writeManifest(path, header, entries, numbers);
        made.push(manifest);
        return bytes;
      });
      return made;
    };

    const left = new Set(remove);
    const rewritten = new Map<number, { header: ManifestHeader; entries: ManifestEntry[] }>();
    let manifests: Manifest[] = [];
    for (const manifest of await this.manifests(base.current, signal)) {
      const isSearched = left.size > 0 && manifest.files > 0 && !manifest.isOfDeletes;
      const files = isSearched ? await this.#filesOf(manifest, signal) : [];
      if (!files.some(({ path }) => left.has(path))) {
        // One without files only says what an earlier snapshot removed.
        if (manifest.files > 0) manifests.push(manifest);
        continue;
      }
      const { header, entries } = await this.#entries(manifest, signal);
      const changed = entries
        .filter(isLive)
        .map((entry) => (left.delete(entry.file.path) ? removed(entry, numbers.id) : kept(entry)));
      const known = rewritten.get(manifest.spec);
      if (known === undefined) rewritten.set(manifest.spec, { header, entries: changed });
      else known.entries.push(...changed);
    }
    for (const { header, entries } of rewritten.values()) manifests.push(...(await write(header, entries)));
    if (left.size > 0) return undefined;
    for (const files of Map.groupBy(add, ({ partition }) => partition.spec).values()) {
      const entries = files.map((file) => added(file, numbers.id));
      manifests.push(...(await write(headerOf(base, files, schema), entries)));
    }
    for (const some of Map.groupBy(manifests.filter(isSmall), ({ spec }) => spec).values()) {
      if (some.length <= MERGED_MANIFESTS) continue;
      const read: { readonly header: ManifestHeader; readonly entries: readonly ManifestEntry[] }[] = [];
      // Those of this commit say what it adds and removes.
      const older = some.filter(({ snapshot }) => snapshot !== numbers.id);
      for (const manifest of older) read.push(await this.#entries(manifest, signal));
      const [first] = read;
      if (first === undefined) continue;
      const merged = read.flatMap(({ entries }) => entries.filter(isLive).map(kept));
      manifests = manifests.filter((manifest) => !older.includes(manifest));
      manifests.push(...(await write(first.header, merged)));
    }
    const list = await put('snap', () => writeManifestList(manifests, numbers));
    const data = manifests.filter(({ isOfDeletes }) => !isOfDeletes);
    const total = (of: (manifest: Manifest) => bigint) =>
      String(data.reduce((sum, one) => sum + of(one), 0n));
    const snapshot = {
      'snapshot-id': longJson(numbers.id),
      ...(numbers.parent === undefined ? {} : { 'parent-snapshot-id': longJson(numbers.parent) }),
      'sequence-number': longJson(numbers.sequence),
      'timestamp-ms': Math.max(this.#clock(), base.updatedAt),
      'manifest-list': list,
      summary: {
        operation,
        'added-data-files': String(add.length),
        'added-records': String(add.reduce((sum, { rows }) => sum + rows, 0)),
        'deleted-data-files': String(remove.size),
        'total-data-files': total(({ files }) => BigInt(files)),
        'total-records': total(({ rows }) => rows),
        ...summary,
      },
      ...(schema === undefined ? { 'schema-id': base.schemaId } : {}),
    };
    return [
      { action: 'add-snapshot', snapshot },
      {
        action: 'set-snapshot-ref',
        'ref-name': MAIN,
        type: 'branch',
        'snapshot-id': snapshot['snapshot-id'],
      },
    ];
  }

  async #entries(manifest: Manifest, signal: AbortSignal) {
    const bytes = await this.read(manifest.path, signal);
    return this.#understood(manifest.path, () => readManifest(bytes, manifest));
  }

  async #filesOf(manifest: Manifest, signal: AbortSignal): Promise<readonly TableFile[]> {
    const known = this.#manifests.get(manifest.path);
    this.#manifests.delete(manifest.path);
    const files = known ?? (await this.#entries(manifest, signal)).entries.filter(isLive).map(fileIn);
    // Another call may have read it meanwhile.
    if (!this.#manifests.has(manifest.path) && known === undefined) this.#remembered += files.length;
    this.#manifests.set(manifest.path, files);
    for (const [path, some] of this.#manifests) {
      if (this.#remembered <= REMEMBERED_FILES || path === manifest.path) break;
      this.#manifests.delete(path);
      this.#remembered -= some.length;
    }
    return files;
  }

  #understood<T>(path: string, read: () => T): T {
    try {
      return read();
    } catch (error) {
      throw new WarehouseRefused(`${this.nameOf(path)} is no file of Iceberg that is known here`, {
        cause: error,
      });
    }
  }
}

const isLive = (entry: ManifestEntry) => entry.isLive;
const isSmall = ({ files, isOfDeletes }: Manifest) => files < SMALL_MANIFEST && !isOfDeletes;
const fileIn = ({ file }: ManifestEntry) => file;

/** What a path has behind the root; undefined where it is not below. The schemes of one store have several names. */
function withinRoot(path: string, root: string): string | undefined {
  const plain = (uri: string) => uri.replace(/^s3[an]:/, 's3:').replace(/^file:\/+/, 'file:/');
  const [whole, above] = [plain(path), `${plain(root)}/`];
  const name = whole.slice(above.length);
  return whole.startsWith(above) && isInLake(name) ? name : undefined;
}

/** The header of a manifest with new files of one partition spec. */
function headerOf(
  base: TableMetadata,
  [file]: readonly NewFile[],
  schema: Document = base.schemaJson,
): ManifestHeader {
  const { spec = 0, type } = file?.partition ?? {};
  return {
    metadata: {
      schema: JSON.stringify(schema),
      'schema-id': String(base.schemaId),
      'partition-spec': JSON.stringify(base.specs.find(({ id }) => id === spec)?.json ?? []),
      'partition-spec-id': String(spec),
    },
    partition: type,
  };
}
