import type { Contract, EnforcementMode, UndeclaredFields } from '../catalog/entities.ts';
import type { CanonicalEvent, JsonObject } from '../event/event.ts';
import type { HistoryEntry } from '../ports/history.ts';
import type { SchemaViolation, Violation } from './violation.ts';

/** The part of a contract that a verdict depends on. */
export interface ContractTerms {
  readonly schema_definition: JsonObject;
  readonly enforcement_mode: EnforcementMode;
  readonly undeclared_fields: UndeclaredFields;
}

/**
 * The result of evaluating one event against its contract.
 * `accepted`: untouched, without violations. `warned`: passes with violations. `omitted`: passes without its undeclared
 * fields, maybe with violations besides. `rejected`: blocked.
 */
export interface ContractVerdict {
  readonly outcome: 'accepted' | 'warned' | 'omitted' | 'rejected';
  /** The violations found, with what was done about each; at most `MAX_VIOLATIONS`. */
  readonly violations: readonly (SchemaViolation & Pick<Violation, 'action'>)[];
  /** The subject without its undeclared fields; only when `omitted`. */
  readonly subject?: JsonObject;
}

/** Why a `schema_definition` cannot be a contract; shown to its author. */
export interface SchemaFault {
  /** JSON pointer into the schema definition. */
  readonly path: string;
  readonly message: string;
}

/** Evaluates events. Pure for its callers; compiled schemas are kept in a bounded cache inside. */
export interface ContractEvaluator {
  /** `contract` and `event` give the same verdict every time. Never throws for any JSON event. */
  evaluate(contract: Contract, event: CanonicalEvent): ContractVerdict;
  /** Compiles a contract into the cache beforehand, in steps of some ms: for a thread that serves others in between. */
  prepare(contract: Contract): Generator<undefined, void>;
}

/** The id of a version in the history. Zeros are padded, so of versions made at the same time the later is listed first. */
export function contractVersionId(contractId: string, version: number): string {
  return `${contractId}:${String(version).padStart(10, '0')}`;
}

/**
 * The history entries of a change of a contract: the new version, and once more the version it replaced. History keeps
 * an entry for its retention after the last put, so a past version is readable for as long as any violation it caused,
 * although the catalog forgets it. The same facts give the same entries.
 */
export function contractVersionEntries(
  before: Contract | undefined,
  after: Contract | undefined,
): readonly HistoryEntry[] {
  if (before?.version === after?.version) return [];
  return [
    ...(before === undefined ? [] : [versionEntry(before, 2)]),
    ...(after === undefined ? [] : [versionEntry(after, 1)]),
  ];
}

function versionEntry(contract: Contract, put: 1 | 2): HistoryEntry {
  return {
    kind: 'contract',
    id: contractVersionId(contract.id, contract.version),
    workspaceId: contract.workspace_id,
    at: Date.parse(contract.updated_at),
    version: put,
    facets: { contract_id: contract.id },
    body: contract as Contract & JsonObject,
  };
}
