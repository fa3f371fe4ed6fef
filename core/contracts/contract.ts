import type { Contract, EnforcementMode, UndeclaredFields } from '../catalog/entities.ts';
import type { CanonicalEvent, JsonObject } from '../event/event.ts';
import type { Breach } from './violation.ts';

/** The part of a contract that judges. */
export interface ContractTerms {
  readonly schema_definition: JsonObject;
  readonly enforcement_mode: EnforcementMode;
  readonly undeclared_fields: UndeclaredFields;
}

/**
 * What a contract says of one event.
 * `accepted`: untouched, nothing found. `warned`: passes with breaches. `omitted`: passes without the fields in
 * `omitted` (and maybe with breaches). `rejected`: blocked.
 */
export interface ContractVerdict {
  readonly outcome: 'accepted' | 'warned' | 'omitted' | 'rejected';
  /** Breaches to record, with what was done about each; at most `MAX_VIOLATIONS`. */
  readonly breaches: readonly (Breach & { readonly action: 'warned' | 'omitted' | 'blocked' })[];
  /** The subject without its undeclared fields; only when `omitted`. */
  readonly subject?: JsonObject;
}

/** Why a `schema_definition` cannot be a contract: shown to its author. */
export interface SchemaFault {
  /** JSON pointer into the schema definition. */
  readonly path: string;
  readonly message: string;
}

/** Judges events. Pure for its callers; compiled schemas are kept in a bounded cache inside. */
export interface ContractEvaluator {
  /** `contract` and `event` give the same verdict every time. Never throws for any JSON event. */
  evaluate(contract: Contract, event: CanonicalEvent): ContractVerdict;
}
