import type { Contract } from '../../catalog/entities.ts';
import { type CanonicalEvent, contractSubject, type EventType, eventName } from '../../event/event.ts';
import type { InferredField } from '../infer/infer-contract.ts';
import { type Room, ValueProfile } from '../infer/value-profile.ts';
import { below } from '../json-values.ts';
import { type TypeModel, typeModelOf } from './type-model.ts';

/** `undeclared`: seen, but no contract declares it. */
export type SeenState = 'seen' | 'never_seen' | 'undeclared';

/** A field of the events of one contract. */
export interface ComparedField extends Pick<InferredField, 'path' | 'required' | 'seen' | 'of' | 'types'> {
  readonly state: SeenState;
}

/** The events of one contract, or of one name without a contract. */
export interface ComparedEvent {
  readonly event_type: EventType;
  /** Empty for a contract without a name, which stands for all names without a contract of their own. */
  readonly event_name: string;
  readonly state: SeenState;
  readonly contract: Contract | undefined;
  /** Accepted events, as they were counted. */
  readonly accepted: number;
  /** Accepted and rejected events whose fields were looked at. */
  readonly sampled: number;
  /** Fields that need attention first. Empty for a name without a contract. */
  readonly fields: readonly ComparedField[];
  readonly fieldsCut: boolean;
}

/** Paths in events that are remembered, of all contracts together. */
const MAX_PATHS_OF_PLAN = 20_000;
/** Names without a contract that are reported. */
const MAX_UNDECLARED_NAMES = 1_000;
/** Fields reported of one contract, and of all. */
const MAX_FIELDS_REPORTED = 500;
const MAX_FIELDS_OF_PLAN = 20_000;

/** Finds the contract that applies to events of a type and name. */
type ContractFinder = (type: EventType, name: string) => Contract | undefined;

interface Tally {
  readonly type: EventType;
  readonly name: string;
  readonly contract: Contract | undefined;
  readonly subjects: ValueProfile | undefined;
  accepted: number;
  sampled: number;
}

/** Compares contracts with events that are added one by one, and with counts by name. Keeps statistics of bounded size. */
export class PlanComparison {
  readonly #find: ContractFinder;
  readonly #tallies = new Map<string, Tally>();
  readonly #paths: Room = { left: MAX_PATHS_OF_PLAN };
  /** Paths of undeclared fields, by contract. */
  readonly #removed = new Map<string, Set<string>>();
  #undeclaredNames = 0;
  #fieldsLeft = MAX_FIELDS_OF_PLAN;
  #isCut = false;

  constructor(contracts: Iterable<Contract>, find: ContractFinder) {
    this.#find = find;
    for (const contract of contracts) this.#add(contract.event_type, contract.event_name, contract);
  }

  /** Adds an event, for its fields. */
  addEvent(event: CanonicalEvent): void {
    const tally = this.#tallyOf(event.type, eventName(event));
    if (tally === undefined) return;
    tally.sampled++;
    tally.subjects?.add(event[contractSubject(event.type)] ?? {});
  }

  /** Adds accepted events that were counted under a name. */
  addCount(type: EventType, name: string, count: number): void {
    const tally = this.#tallyOf(type, name);
    if (tally !== undefined) tally.accepted += count;
  }

  /** Adds a field that a violation found undeclared; such fields may have been taken out of the events. */
  addUndeclared(contract: Contract, path: string): void {
    this.#removed.set(
      contract.id,
      (this.#removed.get(contract.id) ?? new Set()).add(path.replaceAll(/\/\d+(?=\/|$)/g, '/*')),
    );
  }

  /** The contracts whose events came. */
  get seen(): readonly Contract[] {
    return [...this.#tallies.values()].flatMap(({ contract, accepted, sampled }) =>
      contract !== undefined && accepted + sampled > 0 ? [contract] : [],
    );
  }

  /** There were more names without a contract than are reported. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /**
   * Names without a contract first, then contracts whose events never came, then the others. Each step takes the schema of
   * one contract, so that a caller can yield between them.
   */
  *result(): Generator<ComparedEvent> {
    const tallies = [...this.#tallies.values()].map((tally) => ({ ...tally, state: stateOf(tally) }));
    for (const tally of tallies.sort(byAttention)) yield this.#compared(tally);
  }

  #tallyOf(type: EventType, name: string): Tally | undefined {
    const contract = this.#find(type, name);
    if (contract !== undefined) return this.#tallies.get(keyOf(type, contract.event_name));
    const known = this.#tallies.get(keyOf(type, name));
    if (known !== undefined) return known;
    if (this.#undeclaredNames >= MAX_UNDECLARED_NAMES) {
      this.#isCut = true;
      return undefined;
    }
    this.#undeclaredNames++;
    return this.#add(type, name, undefined);
  }

  #add(type: EventType, name: string, contract: Contract | undefined): Tally {
    const subjects = contract === undefined ? undefined : new ValueProfile(0, this.#paths);
    const tally = { type, name, contract, subjects, accepted: 0, sampled: 0 };
    this.#tallies.set(keyOf(type, name), tally);
    return tally;
  }

  #compared({
    type,
    name,
    contract,
    subjects,
    accepted,
    sampled,
    state,
  }: Tally & { readonly state: SeenState }): ComparedEvent {
    const fields = contract === undefined ? [] : this.#fieldsOf(contract, subjects);
    const reported = fields.slice(0, Math.min(MAX_FIELDS_REPORTED, this.#fieldsLeft));
    this.#fieldsLeft -= reported.length;
    return {
      event_type: type,
      event_name: name,
      state,
      contract,
      accepted,
      sampled,
      fields: reported,
      fieldsCut: fields.length > reported.length || subjects?.isOpen === true,
    };
  }

  #fieldsOf(
    { id, schema_definition }: Contract,
    subjects: ValueProfile | undefined,
  ): readonly ComparedField[] {
    const fields: ComparedField[] = [];
    compareFields(typeModelOf(schema_definition), subjects, '', fields);
    const known = new Set(fields.map(({ path }) => path));
    for (const path of this.#removed.get(id) ?? [])
      if (!known.has(path)) fields.push({ ...UNSEEN, path, state: 'undeclared' });
    return fields.sort(byAttention);
  }
}

const UNSEEN = { required: false, seen: 0, of: 0, types: {} } as const;

function stateOf({ contract, accepted, sampled }: Tally): SeenState {
  if (contract === undefined) return 'undeclared';
  return accepted + sampled > 0 ? 'seen' : 'never_seen';
}

function keyOf(type: EventType, name: string): string {
  return `${type} ${name}`;
}

const ATTENTION: readonly SeenState[] = ['undeclared', 'never_seen', 'seen'];

/** Sorting is stable, so entries of one state stay in their order. */
function byAttention(a: { readonly state: SeenState }, b: { readonly state: SeenState }): number {
  return ATTENTION.indexOf(a.state) - ATTENTION.indexOf(b.state);
}

/** The fields that the model declares or the objects had. Fields below a free field are left out: no plan covers them. */
function compareFields(
  model: TypeModel,
  objects: ValueProfile | undefined,
  path: string,
  found: ComparedField[],
): void {
  const of = objects?.types.get('object') ?? 0;
  for (const { name, required, model: declared } of model.fields) {
    const profile = objects?.fields.get(name);
    found.push(comparedField(below(path, name), required, profile, of));
    compareValue(declared, profile, below(path, name), found);
  }
  if (model.rest !== false) return;
  const declared = new Set(model.fields.map(({ name }) => name));
  for (const [name, profile] of objects?.fields ?? [])
    if (!declared.has(name))
      found.push({ ...comparedField(below(path, name), false, profile, of), state: 'undeclared' });
}

function compareValue(
  model: TypeModel,
  profile: ValueProfile | undefined,
  path: string,
  found: ComparedField[],
): void {
  compareFields(model, profile, path, found);
  if (model.items !== undefined) compareValue(model.items, profile?.items, `${path}/*`, found);
}

function comparedField(
  path: string,
  required: boolean,
  profile: ValueProfile | undefined,
  of: number,
): ComparedField {
  const seen = profile?.seen ?? 0;
  return {
    path,
    state: seen > 0 ? 'seen' : 'never_seen',
    required,
    seen,
    of,
    types: Object.fromEntries(profile?.types ?? []),
  };
}
