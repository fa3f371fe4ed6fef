import type { Contract } from '../catalog/entities.ts';
import { contractSubject, type JsonObject } from '../event/event.ts';
import { SharedCache } from '../limits/shared-cache.ts';
import type { ContractEvaluator, ContractTerms, ContractVerdict } from './contract.ts';
import { type CompiledSchema, compileSchema } from './evaluation/compile-schema.ts';
import { cutPath, Place, SharedParts } from './evaluation/schema-check.ts';
import { deeperThan } from './json-values.ts';
import { MAX_VIOLATIONS, type SchemaViolation } from './violation.ts';
import { lastOf } from './work.ts';

/** Contracts of one workspace. More than one workspace may have in use in turn: others compile for every event. */
const MAX_COMPILED = 10_000;
const DEFAULT_MAX_BYTES = 256 * 1024 * 1024;
const MIN_WEIGHT = 1_024;

const NO_FIELDS: JsonObject = {};
const NO_PATHS: readonly string[] = [];
const ACCEPTED: ContractVerdict = { outcome: 'accepted', violations: [] };

/**
 * Contracts compile on first use into a bounded cache, by the contract as an object: a version must never be changed.
 * `maxBytes`: weight of all compiled contracts together; those of one workspace have half of that.
 */
export function createContractEvaluator(maxBytes = DEFAULT_MAX_BYTES): ContractEvaluator {
  const maxWeight = maxBytes / 2;
  const compiled = new SharedCache<{ readonly schema: CompiledSchema | undefined }, Contract>(maxBytes, {
    max: MAX_COMPILED,
    maxWeight,
  });
  const shared = new SharedParts();

  function* compile(contract: Contract) {
    const { schema } = yield* compileSchema(contract.schema_definition, shared);
    // One that is heavier than the share of its workspace counts as the whole share: it is kept, alone.
    const weight = Math.min(schema?.weight ?? MIN_WEIGHT, maxWeight);
    compiled.add(contract.workspace_id, contract, { schema }, weight);
    return { schema };
  }

  return {
    evaluate(contract, event) {
      if (contract.enforcement_mode === 'allow') return ACCEPTED;
      const { schema } = compiled.get(contract.workspace_id, contract) ?? lastOf(compile(contract));
      if (schema === undefined) return verdictOf(contract, notEvaluated('schema', UNUSABLE), () => NO_FIELDS);
      return evaluate(schema, contract, event[contractSubject(event.type)] ?? NO_FIELDS);
    },
    *prepare(contract) {
      if (
        contract.enforcement_mode !== 'allow' &&
        compiled.get(contract.workspace_id, contract) === undefined
      )
        yield* compile(contract);
    },
  };
}

function evaluate(schema: CompiledSchema, terms: ContractTerms, subject: JsonObject): ContractVerdict {
  const { declared, meter, maxDepth } = schema;
  if (maxDepth !== Number.POSITIVE_INFINITY && deeperThan(subject, maxDepth)) {
    const tooDeep = notEvaluated('bounds', `must be nested at most ${maxDepth} deep`);
    return verdictOf(terms, tooDeep, () => NO_FIELDS);
  }
  const place = new Place(meter);
  try {
    meter.reset();
    schema.check(subject, place);
    if (schema.isPlain && place.isEmpty) return ACCEPTED;
    const undeclared = terms.undeclared_fields === 'allow' ? NO_PATHS : declared.undeclared(subject);
    const { violations } = place;
    if (violations.length === 0 && undeclared.length === 0) return ACCEPTED;
    return verdictOf(terms, { violations, undeclared }, () => declared.without(subject));
  } catch (thrown) {
    // The bound on depth keeps the stack from overflowing. Should it ever, the event is to blame, not the stage.
    if (thrown !== meter.exhausted && !(thrown instanceof RangeError)) throw thrown;
    return verdictOf(terms, unfinished(place.violations), () => NO_FIELDS);
  }
}

/** The result of checking one subject against its schema. */
interface Findings {
  readonly violations: readonly SchemaViolation[];
  /** JSON pointers of the undeclared fields; none when the contract allows them. */
  readonly undeclared: readonly string[];
}

/** Definitions are checked before they become contracts, so only an older release took this one. Stored: do not reword. */
const UNUSABLE = 'cannot be evaluated: the schema of the contract does not compile';
/** Stored: do not reword. */
const EXHAUSTED = 'cannot be evaluated: it takes too much work';

function notEvaluated(kind: SchemaViolation['kind'], message: string): Findings {
  return { violations: [{ kind, path: '', message }], undeclared: NO_PATHS };
}

/** The violations found before the meter was exhausted are recorded behind that one; there may be more. */
function unfinished(found: readonly SchemaViolation[]): Findings {
  const { violations, undeclared } = notEvaluated('schema', EXHAUSTED);
  return { violations: [...violations, ...found.slice(0, MAX_VIOLATIONS - 1)], undeclared };
}

type RecordedViolation = ContractVerdict['violations'][number];

/**
 * The verdict on the findings. Enforcement is the ceiling: nothing rejects unless it is `block`. A field that is
 * undeclared and that the schema forbids is one violation. A rejected event stays as it is, so nothing of it is
 * `omitted`: its undeclared fields are then recorded as `warned`. `without` makes the subject without those fields.
 */
function verdictOf(
  terms: Pick<ContractTerms, 'enforcement_mode' | 'undeclared_fields'>,
  { violations, undeclared }: Findings,
  without: () => JsonObject,
): ContractVerdict {
  const counted = terms.undeclared_fields === 'block' ? undeclared.length : 0;
  const rejected = terms.enforcement_mode === 'block' && violations.length + counted > 0;
  const omits = terms.undeclared_fields === 'omit' && undeclared.length > 0 && !rejected;
  const recorded = record(violations, undeclared.map(cutPath), {
    schema: rejected ? 'blocked' : 'warned',
    undeclared: omits ? 'omitted' : rejected && counted > 0 ? 'blocked' : 'warned',
  });
  if (rejected) return { outcome: 'rejected', violations: recorded };
  if (omits) return { outcome: 'omitted', violations: recorded, subject: without() };
  return { outcome: recorded.length > 0 ? 'warned' : 'accepted', violations: recorded };
}

function record(
  violations: readonly SchemaViolation[],
  undeclared: readonly string[],
  actions: Readonly<Record<'schema' | 'undeclared', RecordedViolation['action']>>,
): readonly RecordedViolation[] {
  const open = new Set(undeclared);
  const recorded = violations.map((violation): RecordedViolation => {
    const isBoth = violation.kind === 'undeclared' && open.delete(violation.path);
    const action = isBoth && actions.schema === 'warned' ? actions.undeclared : actions.schema;
    return { ...violation, action };
  });
  for (const path of open) {
    if (recorded.length >= MAX_VIOLATIONS) break;
    recorded.push({ kind: 'undeclared', path, message: 'is not declared', action: actions.undeclared });
  }
  return recorded;
}
