import {
  contractSubject,
  EVENT_TYPES,
  hasName,
  isObject,
  type Json,
  type JsonObject,
  objectIn,
} from '../../event/event.ts';
import { MAX_SCHEMA_BYTES } from '../definition/definition.ts';
import { below, isList } from '../json-values.ts';
import { leftOut, payloadSchema, saysSomethingOfCall, subjectSchema } from './payload-schema.ts';
import {
  type ImportedContract,
  labelsOf,
  MAX_PLAN_RULES,
  type PlanContract,
  type PlanRemark,
  type ReadingSteps,
  tooMany,
} from './tracking-plan.ts';

/** A rule of a plan, as Segment's Public API and typewriter have it. */
export function segmentRule(contract: PlanContract): JsonObject {
  const labels = Object.fromEntries(labelsOf(contract));
  return {
    key: contract.event_name,
    type: contract.event_type.toUpperCase(),
    version: 1,
    ...(contract.description === null ? {} : { description: contract.description }),
    ...(Object.keys(labels).length === 0 ? {} : { labels }),
    jsonSchema: payloadOf(contract),
  };
}

/** An event of a plan, as RudderStack's catalog API has it. */
export function rudderstackEvent(contract: PlanContract): JsonObject {
  return {
    name: contract.event_name,
    description: contract.description ?? '',
    eventType: contract.event_type,
    identitySection: contractSubject(contract.event_type),
    rules: payloadOf(contract),
  };
}

function payloadOf({ event_type, schema_definition, description }: PlanContract): JsonObject {
  return payloadSchema(event_type, schema_definition, description);
}

/** One rule, in the terms of either product. */
interface Rule {
  readonly location: string;
  readonly schemaLocation: string;
  readonly type: string;
  readonly name: string;
  readonly version: number;
  readonly description: string | undefined;
  readonly labels: JsonObject;
  readonly schema: JsonObject;
}

/**
 * Reads a plan of Segment (the Public API's rules, typewriter's `plan.json`, the older Config API) or RudderStack (the
 * catalog API, rudder-typer's `plan.json`). A document that is neither has a fault.
 */
export function* readVendorPlan(document: JsonObject): ReadingSteps {
  const faults: PlanRemark[] = [];
  const notes: PlanRemark[] = [...notesOfRules(document)];
  const lists = ruleListsOf(document);
  if (lists === undefined) return { contracts: [], notes, faults: [{ path: '', message: NO_PLAN }] };
  if (lists.reduce((sum, { items }) => sum + items.length, 0) > MAX_PLAN_RULES)
    return tooMany(lists[0]?.location ?? '', MAX_PLAN_RULES);
  const rules = lists.flatMap(({ items, location, type, isWhole }) =>
    items.flatMap((item, at) => {
      const rule = readRule(item, isWhole ? location : `${location}/${at}`, type, faults);
      if (rule === undefined || !isWhole) return rule ?? [];
      return saysSomethingOfCall(rule.schema) ? { ...rule, schemaLocation: location } : [];
    }),
  );
  const newest = newestOf(rules, notes);
  const contracts: ImportedContract[] = [];
  for (const rule of newest) {
    contracts.push(...(contractOf(rule, notes) ?? []));
    yield;
  }
  return { contracts, notes, faults };
}

const NO_PLAN = 'must be a plan of Tributary (`contracts`), Segment (`rules`) or RudderStack (`events`)';

/** Rules of one list; `type` where the list states it for all. */
interface RuleList {
  readonly items: readonly Json[];
  readonly location: string;
  readonly type: string | undefined;
  /** The one item is at the location itself: the schema of all events of its type. */
  readonly isWhole?: true;
}

function ruleListsOf(document: JsonObject): readonly RuleList[] | undefined {
  const data = isObject(document.data) ? document.data : undefined;
  const [holder, location] = data === undefined ? [document, ''] : [data, '/data'];
  const { rules, events } = holder;
  if (rules !== undefined && isList(rules))
    return [{ items: rules, location: `${location}/rules`, type: undefined }];
  if (events !== undefined && isList(events))
    return [{ items: events, location: `${location}/events`, type: undefined }];
  if (!isObject(rules)) return undefined;
  const lists = Object.entries(rules).flatMap(([name, items]): RuleList[] => {
    const type = MEMBERS_OF_RULES.get(name);
    const at = `${location}/rules/${name}`;
    if (type === undefined || items === null) return [];
    if (isList(items)) return [{ items, location: at, type: type === 'track' ? undefined : type }];
    return [{ items: [isRule(items) ? items : { rules: items }], location: at, type, isWhole: true }];
  });
  return lists.length === 0 ? undefined : lists;
}

/** The lists and schemas in the rules of the Config API, with the event type that each is for. */
const MEMBERS_OF_RULES: ReadonlyMap<string, string> = new Map([
  ['events', 'track'],
  ['identify', 'identify'],
  ['identify_traits', 'identify'],
  ['group', 'group'],
  ['group_traits', 'group'],
  ['global', 'common'],
]);

function isRule(item: Json): boolean {
  return isObject(item) && ['rules', 'jsonSchema', 'name', 'key'].some((name) => Object.hasOwn(item, name));
}

/** The members of the rules of a plan beside the lists that are read. */
function notesOfRules(document: JsonObject): readonly PlanRemark[] {
  const data = isObject(document.data) ? document.data : undefined;
  const { rules } = data ?? document;
  if (!isObject(rules)) return [];
  const location = data === undefined ? '/rules' : '/data/rules';
  return Object.keys(rules)
    .filter((name) => !MEMBERS_OF_RULES.has(name))
    .map((name) => ({ path: below(location, name), message: 'is left out: it is no list of rules' }));
}

/** Characters of a rule's schema: the maximum of a contract's schema, and as much for content beside it. */
const MAX_RULE_LENGTH = 2 * MAX_SCHEMA_BYTES;

function readRule(
  item: Json,
  location: string,
  type: string | undefined,
  faults: PlanRemark[],
): Rule | undefined {
  const fault = (path: string, message: string) => void faults.push({ path: location + path, message });
  if (!isObject(item)) return fault('', 'must be an object');
  const { key, name = key ?? '', eventType, type: own = eventType ?? type ?? 'track' } = item;
  const schemaMember = item.jsonSchema === undefined ? 'rules' : 'jsonSchema';
  const schema = item[schemaMember] ?? {};
  if (typeof name !== 'string') return fault(item.name === undefined ? '/key' : '/name', 'must be a string');
  if (typeof own !== 'string') return fault('/type', 'must be a string');
  if (!isObject(schema)) return fault(`/${schemaMember}`, 'must be an object');
  if (JSON.stringify(schema).length > MAX_RULE_LENGTH)
    return fault(`/${schemaMember}`, `must be at most ${MAX_RULE_LENGTH / 1024} Ki characters of JSON`);
  const { description, version, labels = schema.labels } = item;
  return {
    location,
    schemaLocation: `${location}/${schemaMember}`,
    type: own.toLowerCase(),
    name,
    version: typeof version === 'number' ? version : 1,
    description: typeof description === 'string' ? description : undefined,
    labels: objectIn(labels),
    schema,
  };
}

/** The newest of several versions of one event: a contract applies to all events of its name. */
function newestOf(rules: readonly Rule[], notes: PlanRemark[]): readonly Rule[] {
  const newest = new Map<string, Rule>();
  for (const rule of rules) {
    const known = newest.get(eventOf(rule));
    if (known === undefined || known.version < rule.version) newest.set(eventOf(rule), rule);
  }
  return rules.filter((rule) => {
    const newer = newest.get(eventOf(rule));
    if (newer === undefined || newer.version === rule.version) return true;
    notes.push({
      path: rule.location,
      message: `is left out: ${newer.location} is a newer version of the event`,
    });
    return false;
  });
}

function eventOf({ type, name }: Rule): string {
  return `${type} ${name}`;
}

function contractOf(rule: Rule, notes: PlanRemark[]): readonly [ImportedContract] | undefined {
  const note = (path: string, message: string) => void notes.push({ path, message });
  if (rule.type === 'common') return note(rule.location, 'is left out: a contract is for one type of event');
  const type = EVENT_TYPES.find((known) => known === rule.type);
  if (type === undefined)
    return note(
      rule.location,
      `is left out: its type ${JSON.stringify(rule.type)} is none of ${EVENT_TYPES.join(', ')}`,
    );
  const { schema, description = '', lost } = subjectSchema(type, rule.schema);
  for (const what of lost) note(rule.schemaLocation, leftOut(what));
  const texts = Object.fromEntries(
    Object.entries(rule.labels).filter(([, value]) => typeof value === 'string'),
  );
  const contract = {
    location: rule.location,
    event_type: type,
    event_name: hasName(type) ? rule.name : '',
    description: rule.description || description || null,
    schema_definition: Object.keys(texts).length === 0 ? schema : { ...schema, 'x-labels': texts },
  };
  return [contract];
}
