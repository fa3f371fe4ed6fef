import { getOrMake } from '../../primitives/get-or-make.ts';
import type { Transformation } from '../entities.ts';
import type { Table } from './creation-order.ts';

/** The program of a transformation: its source, and the test that belongs to it. */
export interface TransformationVersion
  extends Pick<Transformation, 'source_code' | 'test_input' | 'test_output'> {
  /** The first version of the entity with this program; the versions after it changed other fields. */
  readonly version: number;
  /** ISO 8601 */
  readonly at: string;
  /** The author, as in the fact. */
  readonly by: string;
}

export type TransformationVersionsView = Pick<TransformationVersions, 'of'>;

export const MAX_TRANSFORMATION_VERSIONS = 100;
/**
 * Characters of the kept versions of one transformation together, as every process holds them in memory. The newest
 * is always kept.
 */
export const MAX_VERSIONS_CHARS = 1024 * 1024;

/** Past programs of transformations. Only `fold.ts` calls the methods that change it. */
export class TransformationVersions {
  readonly #kept = new Map<string, readonly TransformationVersion[]>();

  /** The kept versions of a transformation, oldest first; the last one is in use. */
  of(transformation: Transformation): readonly TransformationVersion[] {
    const { created_by, updated_at } = transformation;
    // Rows of a release that kept no versions hold none.
    return this.#kept.get(transformation.id) ?? [versionOf(transformation, updated_at, created_by)];
  }

  /** Keeps a version after a change, if the program changed. */
  note(before: Transformation | undefined, after: Transformation, by: string): void {
    if (before !== undefined && isSame(before, after)) return;
    const known = before === undefined ? [] : this.of(before);
    this.#kept.set(after.id, newest([...known, versionOf(after, after.updated_at, by)]));
  }

  charactersOf(id: string): number {
    return (this.#kept.get(id) ?? []).reduce((sum, version) => sum + versionCharacters(version), 0);
  }

  forget(id: string): void {
    this.#kept.delete(id);
  }

  tables(): Readonly<Record<string, Table>> {
    return { kept: this.#kept };
  }
}

function versionOf(transformation: Transformation, at: string, by: string): TransformationVersion {
  const { version, source_code, test_input, test_output } = transformation;
  return { version, source_code, test_input, test_output, at, by };
}

function isSame(one: Transformation, other: Transformation): boolean {
  return one.source_code === other.source_code && testOf(one) === testOf(other);
}

/** Measured once, because versions never change and serializing a test costs as much as it is long. */
const measured = new WeakMap<TransformationVersion, number>();

function versionCharacters(version: TransformationVersion): number {
  return getOrMake(measured, version, () => version.source_code.length + testOf(version).length);
}

function testOf({ test_input, test_output }: Transformation | TransformationVersion): string {
  return JSON.stringify([test_input, test_output]);
}

function newest(versions: readonly TransformationVersion[]): readonly TransformationVersion[] {
  let chars = 0;
  let first = versions.length;
  while (first > 0 && versions.length - first < MAX_TRANSFORMATION_VERSIONS) {
    const next = versions[first - 1];
    if (next === undefined) break;
    chars += versionCharacters(next);
    if (first < versions.length && chars > MAX_VERSIONS_CHARS) break;
    first -= 1;
  }
  return versions.slice(first);
}
