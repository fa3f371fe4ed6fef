import { isDeepStrictEqual } from 'node:util';
import type { Contract } from '../../catalog/entities.ts';
import type { JsonObject } from '../../event/event.ts';
import { canonicalJson } from '../json-values.ts';
import { normalSchema } from './schema-walk.ts';
import { hasLabel, type ImportedContract, nameOfContract, type PlanRemark } from './tracking-plan.ts';

/** The fields of a contract that an import sets. */
export type PlannedFields = Pick<
  Contract,
  | 'name'
  | 'event_type'
  | 'event_name'
  | 'description'
  | 'schema_definition'
  | 'enforcement_mode'
  | 'undeclared_fields'
>;

/** The action of an import on one contract. */
export type PlanChange =
  | { readonly action: 'create'; readonly location: string; readonly fields: PlannedFields }
  | {
      readonly action: 'update';
      readonly location: string;
      readonly stored: Contract;
      readonly fields: PlannedFields;
      /** The fields whose value changes. */
      readonly changed: readonly (keyof PlannedFields)[];
    }
  | { readonly action: 'leave'; readonly location: string; readonly stored: Contract }
  | { readonly action: 'archive'; readonly stored: Contract };

export interface PlanImport {
  /** Whether stored contracts that the document lacks are kept or archived. */
  readonly missing: 'keep' | 'archive';
  /** Only contracts with this label are concerned. Absent: all. */
  readonly label?: string;
}

/**
 * Compares a document, contract by contract, with the active contracts of a workspace, which it is matched with by event
 * type and name. Each step is bounded by the size of two contracts, so that a caller can yield between them.
 */
export class PlanMatcher {
  readonly faults: PlanRemark[] = [];
  readonly #known: ReadonlyMap<string, Contract>;
  readonly #options: PlanImport;
  /** The location of each event in the document. */
  readonly #locations = new Map<string, string>();

  constructor(stored: Iterable<Contract>, options: PlanImport) {
    this.#known = new Map([...stored].map((contract) => [eventOf(contract), contract]));
    this.#options = options;
  }

  /** The change of one contract by the document; undefined with a fault. */
  match(wanted: ImportedContract): PlanChange | undefined {
    const event = eventOf(wanted);
    const { label } = this.#options;
    const other = this.#locations.get(event);
    this.#locations.set(event, other ?? wanted.location);
    if (other !== undefined) return this.#fault(wanted.location, `is for the same event as ${other}`);
    const stored = this.#known.get(event);
    const fields = plannedFields(wanted, stored);
    if (label !== undefined && !hasLabel(fields, label))
      return this.#fault(wanted.location, `has not the label ${JSON.stringify(label)}`);
    return changeOf(wanted.location, fields, stored);
  }

  /**
   * The archivals of contracts that the document lacks. They come last, so that an import which ends between two changes
   * has archived nothing that it would have replaced.
   */
  missing(): readonly PlanChange[] {
    const { missing, label } = this.#options;
    if (missing === 'keep') return [];
    return [...this.#known.values()]
      .filter(
        (contract) =>
          !this.#locations.has(eventOf(contract)) && (label === undefined || hasLabel(contract, label)),
      )
      .map((stored) => ({ action: 'archive', stored }));
  }

  #fault(path: string, message: string): undefined {
    this.faults.push({ path, message });
  }
}

function eventOf({ event_type, event_name }: Pick<Contract, 'event_type' | 'event_name'>): string {
  return `${event_type} ${event_name}`;
}

function plannedFields(wanted: ImportedContract, stored: Contract | undefined): PlannedFields {
  const { event_type, event_name } = wanted;
  return {
    name: wanted.name ?? stored?.name ?? nameOfContract(event_type, event_name),
    event_type,
    event_name,
    description: wanted.description === undefined ? (stored?.description ?? null) : wanted.description,
    schema_definition: wanted.isExact
      ? wanted.schema_definition
      : translatedSchema(wanted.schema_definition, stored?.schema_definition),
    enforcement_mode: wanted.enforcement_mode ?? stored?.enforcement_mode ?? 'warn',
    undeclared_fields: wanted.undeclared_fields ?? stored?.undeclared_fields ?? 'allow',
  };
}

function changeOf(location: string, fields: PlannedFields, stored: Contract | undefined): PlanChange {
  if (stored === undefined) return { action: 'create', location, fields };
  const names = Object.keys(fields) as (keyof PlannedFields)[];
  const changed = names.filter((name) => !isDeepStrictEqual(fields[name], stored[name]));
  return changed.length === 0
    ? { action: 'leave', location, stored }
    : { action: 'update', location, stored, fields, changed };
}

/**
 * The schema of a contract in another form of plan. Labels stay where it has none, and a schema that says the same as the
 * stored one is no change, however it is written.
 */
function translatedSchema(wanted: JsonObject, stored: JsonObject | undefined): JsonObject {
  if (stored === undefined) return wanted;
  const labels = stored['x-labels'];
  const labelled = labels === undefined ? wanted : { 'x-labels': labels, ...wanted };
  return canonicalJson(normalSchema(labelled)) === canonicalJson(normalSchema(stored)) ? stored : labelled;
}
