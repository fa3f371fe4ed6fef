import { type Contract, ENFORCEMENT_MODES, UNDECLARED_FIELDS } from '../../catalog/entities.ts';
import { EVENT_TYPES, type EventType, isObject, type Json, type JsonObject } from '../../event/event.ts';
import { below, isList } from '../json-values.ts';

/** A contract as a plan has it: the fields that its author wrote, and the version for readers. */
export type PlanContract = Pick<
  Contract,
  | 'name'
  | 'event_type'
  | 'event_name'
  | 'description'
  | 'schema_definition'
  | 'enforcement_mode'
  | 'undeclared_fields'
  | 'version'
>;

/** The active contracts of a workspace as one document. */
export interface TrackingPlan {
  readonly name: string;
  /** Grows with each change of a contract. */
  readonly version: number;
  /** By event type and name. */
  readonly contracts: readonly PlanContract[];
}

/** The plan of these contracts, in the order of `EVENT_TYPES`, then by name. */
export function trackingPlanOf(
  name: string,
  version: number,
  contracts: readonly PlanContract[],
): TrackingPlan {
  return { name, version, contracts: contracts.map(planContract).sort(byEvent) };
}

function planContract(contract: PlanContract): PlanContract {
  return {
    name: contract.name,
    event_type: contract.event_type,
    event_name: contract.event_name,
    description: contract.description,
    schema_definition: contract.schema_definition,
    enforcement_mode: contract.enforcement_mode,
    undeclared_fields: contract.undeclared_fields,
    version: contract.version,
  };
}

function byEvent(a: PlanContract, b: PlanContract): number {
  const types = EVENT_TYPES.indexOf(a.event_type) - EVENT_TYPES.indexOf(b.event_type);
  if (types !== 0) return types;
  if (a.event_name === b.event_name) return 0;
  return a.event_name < b.event_name ? -1 : 1;
}

/** A contract that a document describes. An absent member stays as it is stored; a new contract has the default. */
export interface ImportedContract {
  /** Its location in the document: a JSON pointer, or a line of CSV. */
  readonly location: string;
  readonly name?: string;
  readonly event_type: EventType;
  readonly event_name: string;
  readonly description?: string | null;
  readonly schema_definition: JsonObject;
  readonly enforcement_mode?: Contract['enforcement_mode'];
  readonly undeclared_fields?: Contract['undeclared_fields'];
  /** The version that the document states; it is not stored. */
  readonly version?: number;
  /** The document has the contract in our own form, which is stored as it is written. */
  readonly isExact?: true;
}

/** A part of a document that contracts cannot express, or the reason why it cannot be read. */
export interface PlanRemark {
  readonly path: string;
  readonly message: string;
}

/** A document that was read. It is used only where it has no faults. */
export interface ReadPlan {
  readonly contracts: readonly ImportedContract[];
  /** The parts that were left out. */
  readonly notes: readonly PlanRemark[];
  readonly faults: readonly PlanRemark[];
}

/** Reading in steps of bounded work, so that a caller can yield between them. */
export type ReadingSteps = Generator<undefined, ReadPlan>;

/** Contracts of one document at most, and rules of a plan whose events have several versions. */
export const MAX_PLAN_CONTRACTS = 1_000;
export const MAX_PLAN_RULES = 5 * MAX_PLAN_CONTRACTS;

const MEMBERS: ReadonlySet<string> = new Set([
  ...['name', 'event_type', 'event_name', 'description', 'schema_definition'],
  ...['enforcement_mode', 'undeclared_fields', 'version'],
]);

/** Reads a plan in its own form. Members that are left out have their defaults, as for a new contract. */
export function* readOwnPlan(document: JsonObject): ReadingSteps {
  const faults: PlanRemark[] = Object.keys(document)
    .filter((name) => !['name', 'version', 'contracts'].includes(name))
    .map((name) => ({ path: below('', name), message: 'is not a known field' }));
  const items = document.contracts;
  if (items === undefined || !isList(items))
    return {
      contracts: [],
      notes: [],
      faults: [...faults, { path: '/contracts', message: 'must be an array' }],
    };
  if (items.length > MAX_PLAN_CONTRACTS) return tooMany('/contracts', MAX_PLAN_CONTRACTS);
  const contracts: ImportedContract[] = [];
  for (const [at, item] of items.entries()) {
    contracts.push(...readOwn(item, `/contracts/${at}`, faults));
    yield;
  }
  return { contracts, notes: [], faults };
}

export function tooMany(path: string, limit: number): ReadPlan {
  return { contracts: [], notes: [], faults: [{ path, message: `must have at most ${limit} items` }] };
}

function readOwn(item: Json, location: string, faults: PlanRemark[]): readonly ImportedContract[] {
  const before = faults.length;
  const fault = (path: string, message: string) => void faults.push({ path: location + path, message });
  if (!isObject(item)) {
    fault('', 'must be an object');
    return [];
  }
  for (const name of Object.keys(item))
    if (!MEMBERS.has(name)) fault(below('', name), 'is not a known field');
  const { name, event_type, event_name = '', description = null, schema_definition, version } = item;
  const { enforcement_mode = 'warn', undeclared_fields = 'allow' } = item;
  if (name !== undefined && typeof name !== 'string') fault('/name', 'must be a string');
  if (!isOneOf(EVENT_TYPES, event_type)) fault('/event_type', oneOfMessage(EVENT_TYPES));
  if (typeof event_name !== 'string') fault('/event_name', 'must be a string');
  if (description !== null && typeof description !== 'string')
    fault('/description', 'must be a string or null');
  if (!isObject(schema_definition)) fault('/schema_definition', 'must be an object');
  if (!isOneOf(ENFORCEMENT_MODES, enforcement_mode))
    fault('/enforcement_mode', oneOfMessage(ENFORCEMENT_MODES));
  if (!isOneOf(UNDECLARED_FIELDS, undeclared_fields))
    fault('/undeclared_fields', oneOfMessage(UNDECLARED_FIELDS));
  if (version !== undefined && !Number.isSafeInteger(version)) fault('/version', 'must be an integer');
  if (faults.length > before) return [];
  const fields = {
    event_type,
    event_name,
    description,
    schema_definition,
    enforcement_mode,
    undeclared_fields,
  };
  // Every field was checked above.
  return [
    {
      location,
      ...(name === undefined ? {} : { name }),
      ...fields,
      isExact: true,
      ...(version === undefined ? {} : { version }),
    } as ImportedContract,
  ];
}

function isOneOf(words: readonly string[], value: Json | undefined): boolean {
  return (words as readonly unknown[]).includes(value);
}

function oneOfMessage(words: readonly string[]): string {
  return `must be one of ${words.map((word) => JSON.stringify(word)).join(', ')}`;
}

/** A display name for the contract of an event: one line of visible characters. */
export function nameOfContract(type: EventType, eventName: string): string {
  const visible = eventName.replaceAll(/[\p{C}\p{Z}]+/gu, ' ').trim();
  return [...(visible || `Any ${type}`)].slice(0, 200).join('');
}

/** Labels of a contract, which group the contracts of a plan: the member `x-labels` of its schema. */
export function labelsOf({
  schema_definition,
}: Pick<Contract, 'schema_definition'>): ReadonlyMap<string, string> {
  const labels = schema_definition['x-labels'];
  if (!isObject(labels)) return new Map();
  return new Map(
    Object.entries(labels).filter((label): label is [string, string] => typeof label[1] === 'string'),
  );
}

/** Whether a contract has a label, as `key:value`, or `key` for any value. */
export function hasLabel(contract: Pick<Contract, 'schema_definition'>, label: string): boolean {
  for (const [key, value] of labelsOf(contract))
    if (label === key || label === `${key}:${value}`) return true;
  return false;
}
