import type { ErrorObject } from 'ajv';
import type { Contract } from '../catalog/entities.ts';
import { type CanonicalEvent, contractSubject, type JsonObject } from '../event/event.ts';
import { breachesOf } from './breaches.ts';
import { CompiledContracts } from './compiled-contracts.ts';
import type { ContractEvaluator, ContractTerms, ContractVerdict } from './contract.ts';
import { type CompileBounds, type CompiledSchema, compileSchema } from './contract-schema.ts';
import { deeperThan } from './depth.ts';
import { SharedParts } from './shared-parts.ts';
import { verdictOf } from './verdict.ts';
import { type Breach, MAX_VIOLATIONS } from './violation.ts';
import { MAX_WORK } from './work-meter.ts';

export interface ContractEvaluatorOptions {
  /** Compiled contracts of one workspace kept at most. Default 10,000; what they weigh bounds them too. */
  readonly maxCompiled?: number;
  /** What all compiled contracts may weigh together, bytes; those of one workspace half of that. Default 256 MiB. */
  readonly maxBytes?: number;
}

/** More than one workspace may have in use in turn: what is not kept compiles for every event. */
const DEFAULT_MAX_COMPILED = 10_000;
const DEFAULT_MAX_BYTES = 256 * 1024 * 1024;
const LEAST_WEIGHT = 1_024;

/** Compile work and bytes of a contract that compiles within a few milliseconds. */
const LIGHT: CompileBounds = { maxCompileWork: 200, maxBytes: 16 * 1024 };

const PLAIN_WORK = MAX_WORK / 10;

const EMPTY: JsonObject = {};
const NO_PATHS: readonly string[] = [];
const ACCEPTED: ContractVerdict = { outcome: 'accepted', breaches: [] };

/** Contracts compile on first use into a bounded cache; a version is an object, which whoever holds it never changes. */
export function createContractEvaluator(options: ContractEvaluatorOptions = {}): ContractEvaluator {
  const schemaOf = schemaCache(options, {});
  return {
    evaluate(contract, event) {
      if (contract.enforcement_mode === 'allow') return ACCEPTED;
      const schema = schemaOf(contract);
      if (schema === undefined) return verdictOf(contract, unjudged('schema', UNUSABLE), () => EMPTY);
      return judge(schema, contract, event[contractSubject(event.type)] ?? EMPTY);
    },
  };
}

/**
 * For a thread that must never be held for long: gives the same verdicts as an evaluator, but undefined for a contract
 * that does not compile within a few milliseconds. It finds that out in as much time, once.
 */
export function createLightEvaluator(
  options: ContractEvaluatorOptions = {},
): (contract: Contract, event: CanonicalEvent) => ContractVerdict | undefined {
  const schemaOf = schemaCache(options, LIGHT);
  return (contract, event) => {
    if (contract.enforcement_mode === 'allow') return ACCEPTED;
    const schema = schemaOf(contract);
    return schema && judge(schema, contract, event[contractSubject(event.type)] ?? EMPTY);
  };
}

/** The schema of a contract, from the cache or compiled; undefined where it has a fault or exceeds the bounds. */
function schemaCache(
  { maxCompiled = DEFAULT_MAX_COMPILED, maxBytes = DEFAULT_MAX_BYTES }: ContractEvaluatorOptions,
  bounds: CompileBounds,
): (contract: Contract) => CompiledSchema | undefined {
  const compiled = new CompiledContracts<{ readonly schema: CompiledSchema | undefined }>(
    { maxEach: maxCompiled, maxBytesEach: maxBytes / 2, maxBytes },
    ({ schema }) => schema?.weight ?? LEAST_WEIGHT,
  );
  const shared = new SharedParts();
  return (contract) => {
    const known = compiled.get(contract);
    if (known !== undefined) return known.schema;
    const { schema } = compileSchema(contract.schema_definition, shared, bounds);
    compiled.set(contract, { schema });
    return schema;
  };
}

/** A definition is checked before it becomes a contract, so this is one that an older version took. */
const UNUSABLE = 'cannot be judged: the schema of the contract does not compile';
const EXHAUSTED = 'cannot be judged: it takes too much work';

function unjudged(kind: Breach['kind'], message: string) {
  return { breaches: [{ kind, path: '', message }], undeclared: NO_PATHS };
}

/** What was found until then, which may be all that is wrong with the event, or nothing. */
function unfinished(found: readonly Breach[]) {
  const [{ breaches, undeclared }, most] = [unjudged('schema', EXHAUSTED), MAX_VIOLATIONS - 1];
  return { breaches: [...breaches, ...found.slice(0, most)], undeclared };
}

/** Whether the quick look accepts it, for a tenth of the work that an event may take. */
function isPlainlyAccepted(
  { plain, meter }: CompiledSchema,
  terms: ContractTerms,
  subject: JsonObject,
): boolean {
  if (plain === undefined) return false;
  try {
    meter.reset(PLAIN_WORK);
    return plain.accepts(subject, terms.undeclared_fields !== 'allow');
  } catch (thrown) {
    if (thrown !== meter.exhausted && !(thrown instanceof RangeError)) throw thrown;
    return false;
  }
}

function judge(schema: CompiledSchema, terms: ContractTerms, subject: JsonObject): ContractVerdict {
  const { checker, declared, meter, maxDepth } = schema;
  if (maxDepth !== Number.POSITIVE_INFINITY && deeperThan(subject, maxDepth)) {
    return verdictOf(terms, unjudged('bounds', `must be nested at most ${maxDepth} deep`), () => EMPTY);
  }
  if (isPlainlyAccepted(schema, terms, subject)) return ACCEPTED;
  let errors: readonly ErrorObject[] | undefined;
  try {
    meter.reset();
    errors = checker.errors(subject);
    const undeclared = terms.undeclared_fields === 'allow' ? NO_PATHS : declared.undeclared(subject);
    if (errors.length === 0 && undeclared.length === 0) return ACCEPTED;
    const findings = { breaches: breachesOf(errors, checker), undeclared };
    return verdictOf(terms, findings, () => declared.without(subject));
  } catch (thrown) {
    // The depth bound keeps the stack from running out; should it ever, the event is the reason, not the stage.
    if (thrown !== meter.exhausted && !(thrown instanceof RangeError)) throw thrown;
    return verdictOf(terms, unfinished(breachesOf(errors ?? meter.found, checker)), () => EMPTY);
  }
}
