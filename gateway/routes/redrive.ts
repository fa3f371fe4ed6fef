import {
  BytesTally,
  type CanonicalEvent,
  type Catalog,
  type CatalogView,
  DEAD_CAUSES,
  type DeliveryEnvelope,
  type DeliveryOutcome,
  deadDeliveryKey,
  defined,
  deliveryKey,
  deliveryText,
  type EventLog,
  type EventVerdict,
  eventJson,
  eventKey,
  HEADER,
  type Headers,
  type HistoryQuery,
  hasEvent,
  iso,
  type LogEntry,
  MATCH,
  type NewEntry,
  outcomeOfEntry,
  type Position,
  parseExact,
  parsePosition,
  recordBytes,
  referencedEventText,
  referredEventText,
  TOPIC,
} from '@tributary/core';
import { Type } from 'typebox';
import type { GatewayDependencies } from '../dependencies.ts';
import { invalidRequest } from '../errors/api-error.ts';
import { refuseOutputOverBudget } from '../limits/storage-budgets.ts';
import { withCursor } from '../resources/lists.ts';
import { allOptional, oneOf, parseTime, timeRange, timeText } from '../resources/schemas.ts';

/** The filter of lists, redrives and discards. Query and body have the same fields. */
const fields = {
  destination_id: Type.String({ format: 'uuid' }),
  rule_id: Type.String({ format: 'uuid' }),
  cause: oneOf(DEAD_CAUSES, 'The cause of their death.'),
  reason: Type.String({ minLength: 1, maxLength: 500, description: 'Part of the reason, in any case.' }),
  group: Type.String({
    pattern: '^[\\w-]{22}$',
    description: 'Only those of a group of `GET deliveries/groups`.',
    examples: ['Zk3v0kq9dT1mJX2bq4uR7w'],
  }),
  since: timeText('ISO 8601; their events were received then or later.'),
  until: timeText('ISO 8601; their events were received before then.'),
};

export const filterQuery = Type.Partial(Type.Object(fields)).properties;

export const filterBody = allOptional(fields);

type Name = keyof typeof fields;
const NAMES = Object.keys(fields) as readonly Name[];

type StatedFilter = { readonly [N in Name]?: string | null | undefined };

export type DeliveryFilter = { readonly [N in Name]?: string };

/** Merges the filters of query and body. 400 when they contradict each other, and for an invalid time in the body. */
export function filterOf(query: StatedFilter, body: StatedFilter | null | undefined): DeliveryFilter {
  for (const name of ['since', 'until'] as const) parseTime(`/${name}`, body?.[name] ?? undefined);
  const entries = NAMES.flatMap((name) => {
    const read = (stated: string | null | undefined) =>
      name.endsWith('_id') ? stated?.toLowerCase() : stated;
    const stated = statedOnce(name, read(query[name]), read(body?.[name]));
    return stated === undefined ? [] : [[name, stated]];
  });
  return Object.fromEntries(entries) as DeliveryFilter;
}

/** The value of a field that query and body may have. 400 when they contradict each other. */
export function statedOnce(
  name: string,
  inQuery: string | null | undefined,
  inBody: string | null | undefined,
): string | undefined {
  if (inQuery != null && inBody != null && inQuery !== inBody)
    throw invalidRequest({ path: `/${name}`, message: 'differs from the value in the query' });
  return inBody ?? inQuery ?? undefined;
}

/** The part of a filter that history evaluates. 400 for an invalid time. */
export function historyQuery(
  workspaceId: string,
  filter: DeliveryFilter,
  status: string | undefined,
): Omit<HistoryQuery, 'limit'> {
  const { destination_id, rule_id, cause, group } = filter;
  return {
    kind: 'delivery',
    workspaceId,
    facets: defined({ status, destination_id, rule_id, cause }),
    ...defined({ group }),
    ...timeRange(filter),
  };
}

/** The part of a filter that history cannot evaluate: the reason. */
export function selects(filter: DeliveryFilter): (outcome: Pick<DeliveryOutcome, 'reason'>) => boolean {
  const part = filter.reason?.toLowerCase();
  return ({ reason }) => part === undefined || (reason ?? '').toLowerCase().includes(part);
}

/** Deliveries that one call reads, at most, and those of one page. */
const MAX_READ = 5_000;
const PAGE = 500;

/** Redrives that a process remembers, about 3 MB. Repetitions of older ones are dropped by the stages. */
const REMEMBERED = 20_000;

interface Summary {
  /** Deliveries that were redriven or discarded. */
  readonly done: number;
  /** True when the call stopped at its limit. */
  readonly more: boolean;
  /** The cursor of the next call; null at the end. */
  readonly cursor: string | null;
}

type Dependencies = Pick<
  GatewayDependencies,
  'log' | 'catalog' | 'history' | 'clock' | 'budgets' | 'metrics'
>;

/** Redrives or discards the deliveries for which it is possible, and returns how many. */
type Act = (outcomes: readonly DeliveryOutcome[]) => Promise<number>;

/**
 * Redrives and discards dead deliveries. A failed call may be repeated: the stages accept one of several redrives of the
 * same death, and discarding is idempotent.
 */
export class DeadDeliveries {
  readonly #dependencies: Dependencies;
  /**
   * The deaths that this process has redriven, oldest first. History shows such a delivery as dead for a moment longer, in
   * which a second call would count it again.
   */
  readonly #redriven = new Set<string>();

  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies;
  }

  /** 429 where the workspace is over a budget of bytes, also in the middle of many. */
  readonly redrive: Act = async (outcomes) => {
    const [first] = outcomes;
    if (first !== undefined) refuseOutputOverBudget(this.#dependencies, first.delivery.workspace_id);
    const possible = await this.#possible(outcomes);
    // In one turn of the event loop with the marks: calls at the same time share no death.
    const dead = possible.filter((outcome) => !this.#redriven.has(deadDeliveryKey(outcome)));
    const deaths = dead.map(deadDeliveryKey);
    for (const death of deaths) this.#redriven.add(death);
    try {
      await this.#appendRedrives(dead);
    } catch (error) {
      // An unknown part is in the log: a repeated call redrives all of them again.
      for (const death of deaths) this.#redriven.delete(death);
      throw error;
    }
    for (const oldest of this.#redriven) {
      if (this.#redriven.size <= REMEMBERED) break;
      this.#redriven.delete(oldest);
    }
    return dead.length;
  };

  /** How many would be redriven; nothing is. */
  readonly count: Act = async (outcomes) => {
    const possible = await this.#possible(outcomes);
    return possible.filter((outcome) => !this.#redriven.has(deadDeliveryKey(outcome))).length;
  };

  async #possible(outcomes: readonly DeliveryOutcome[]): Promise<readonly DeliveryOutcome[]> {
    const { log, catalog } = this.#dependencies;
    const possible = outcomes.filter((outcome) => canRedrive(outcome, catalog.state));
    const kept = new Set(
      await keptOf(
        log,
        possible.map(({ delivery }) => delivery),
      ),
    );
    return possible.filter(({ delivery }) => kept.has(delivery));
  }

  async #appendRedrives(dead: readonly DeliveryOutcome[]): Promise<void> {
    const { log, catalog, clock, budgets } = this.#dependencies;
    const redrives = dead.map((outcome) => redriveOf(outcome, clock(), catalog));
    const starts = Map.groupBy(redrives, ({ start }) => start.topic);
    for (const [topic, started] of starts) {
      const entries = started.map(({ start }): NewEntry => start.entry);
      await log.append(topic, entries);
    }
    if (redrives.length === 0) return;
    await log.append(
      TOPIC.outcomes,
      redrives.map(({ outcome }) => outcome),
    );
    const bytes = new BytesTally();
    for (const [at, { start, outcome }] of redrives.entries())
      bytes.written(dead[at]?.delivery.workspace_id ?? '', recordBytes(start.entry) + recordBytes(outcome));
    budgets?.add(bytes);
  }

  readonly discard: Act = async (outcomes) => {
    const { log, catalog, clock } = this.#dependencies;
    const entries = outcomes
      .filter(({ status }) => status === 'dead')
      .map((outcome) => discardOf(outcome, clock(), catalog.position));
    if (entries.length > 0) await log.append(TOPIC.outcomes, entries);
    return entries.length;
  };

  /**
   * Acts on the dead deliveries of a workspace that match the filter, newest first, from `cursor` on. Repeated calls with
   * the returned cursor reach the end, even when deliveries cannot be redriven or die again meanwhile, as a delivery keeps
   * its position in the list.
   */
  async toAll(
    act: Act,
    workspaceId: string,
    filter: DeliveryFilter,
    cursor: string | undefined,
  ): Promise<Summary> {
    const { history } = this.#dependencies;
    const query = { ...historyQuery(workspaceId, filter, 'dead'), limit: PAGE, details: true };
    const isSelected = selects(filter);
    let done = 0;
    let from = cursor;
    for (let readCount = 0; readCount < MAX_READ; readCount += PAGE) {
      const position = from === undefined ? {} : { cursor: from };
      const page = await withCursor(() => history.list({ ...query, ...position }));
      done += await act(page.entries.map(outcomeOfEntry).filter(isSelected));
      from = page.next;
      if (from === undefined) return { done, more: false, cursor: null };
    }
    return { done, more: true, cursor: from ?? null };
  }
}

/**
 * The entry that discards a dead delivery: it is shown as discarded and no longer redriven by filters. A redrive at the
 * same moment continues, and its outcome is shown in the end.
 */
function discardOf(dead: DeliveryOutcome, now: number, catalogPosition: number): NewEntry {
  const { delivery } = dead;
  const discarded: DeliveryOutcome = { ...dead, status: 'discarded', at: iso(now) };
  return {
    key: keyOf(delivery),
    value: JSON.stringify(discarded),
    headers: { ...headersOf(delivery, catalogPosition), [HEADER.outcome]: 'discarded' },
  };
}

/** The entries of a redrive, in the order in which they must become durable. */
interface Redrive {
  /** Starts the redrive: the event before its transformation, or the delivery itself. */
  readonly start: { readonly topic: string; readonly entry: NewEntry };
  /** Shows the delivery as retrying. After `start`: a delivery shown as retrying without being under way would be lost. */
  readonly outcome: NewEntry;
}

/**
 * Whether a redrive is possible: the delivery is dead, its destination exists and is enabled, and so is its rule if the
 * rule had stopped it.
 */
export function canRedrive(outcome: DeliveryOutcome, state: CatalogView): boolean {
  if (outcome.status !== 'dead') return false;
  if (outcome.cause === 'rule' && !isRuleEnabled(outcome, state)) return false;
  const destinationId = destinationOf(outcome, state);
  if (destinationId === undefined) return false;
  return state.entity('destination', outcome.delivery.workspace_id, destinationId)?.enabled === true;
}

/** A delivery that its rule stopped needs the rule to be enabled; deliver evaluates the rule again. */
function isRuleEnabled({ delivery }: DeliveryOutcome, state: CatalogView): boolean {
  const { workspace_id, rule_id } = delivery;
  return state.entity('rule', workspace_id, rule_id)?.enabled === true;
}

/**
 * The destination of the redrive. If the rule is applied again, that of its current version; undefined when it is deleted. Of a
 * delivery that stands for several rules, that of the first one that exists.
 */
function destinationOf(
  { delivery, cause, rules: others, rules_at }: DeliveryOutcome,
  state: CatalogView,
): string | undefined {
  const { workspace_id, rule_id, destination_id } = delivery;
  if (!isBeforeDelivery(cause)) return destination_id;
  const rules = [rule_id, ...(others ?? [])].map((id) => state.entity('rule', workspace_id, id));
  const first = rules.find((rule) => rule !== undefined);
  return (first ?? (rules_at === undefined ? undefined : state.enabledRules(workspace_id)[0]))
    ?.destination_id;
}

/** Causes before the delivery existed: the rule is applied again. */
function isBeforeDelivery(cause: DeliveryOutcome['cause']): boolean {
  return cause === 'transformation' || matchOf(cause) !== undefined;
}

/** How the rule is matched again; undefined when it had matched. */
function matchOf(cause: DeliveryOutcome['cause'], rulesAt?: DeliveryOutcome['rules_at']): string | undefined {
  if (rulesAt !== undefined) return MATCH.at;
  if (cause === 'filter_failed' || cause === 'over_budget') return MATCH.named;
  return cause === 'filter_not_evaluated' ? MATCH.from : undefined;
}

/** `now`: epoch ms; `catalogPosition`: the position that this process has applied. */
export function redriveOf(
  outcome: DeliveryOutcome,
  now: number,
  { state, position: catalogPosition }: Pick<Catalog, 'state' | 'position'>,
): Redrive {
  const { delivery: dead, cause, contract, rules = [], rules_at } = outcome;
  const delivery: DeliveryEnvelope = { ...dead, redrives: dead.redrives + 1, created_at: iso(now) };
  const headers = headersOf(delivery, catalogPosition);
  const begins = { ...headers, [HEADER.redriveOf]: deadDeliveryKey(outcome) };
  const retrying: DeliveryOutcome = {
    delivery,
    status: 'retrying',
    reason: 'redriven',
    at: iso(now),
    next_attempt_at: iso(now),
  };
  return {
    start: isBeforeDelivery(cause)
      ? applyAgain(delivery, rules, matchOf(cause, rules_at), {
          ...begins,
          ...verdictHeaders(contract),
          ...(rules_at === undefined ? {} : { [HEADER.rulesAt]: String(rules_at) }),
        })
      : deliverAgain(delivery, { ...begins, ...ruleHeaders(outcome, state) }),
    outcome: {
      key: keyOf(delivery),
      value: JSON.stringify(retrying),
      headers: { ...headers, [HEADER.outcome]: 'retrying' },
    },
  };
}

/** With a rule version the delivery is made whatever the rule is now; without one deliver evaluates the rule again. */
function ruleHeaders({ delivery, cause }: DeliveryOutcome, state: CatalogView): Headers {
  if (cause === 'rule') return {};
  const rule = state.entity('rule', delivery.workspace_id, delivery.rule_id);
  return { [HEADER.ruleVersion]: String(rule?.version ?? 0) };
}

function applyAgain(
  delivery: DeliveryEnvelope,
  otherRules: readonly string[],
  match: string | undefined,
  headers: Headers,
): Redrive['start'] {
  const redriven = {
    ...(match === undefined ? {} : { [HEADER.match]: match }),
    [HEADER.rules]: [delivery.rule_id, ...otherRules].join(','),
    [HEADER.redrives]: String(delivery.redrives),
    [HEADER.destinationId]: delivery.destination_id,
  };
  const { event_at, received_at = delivery.created_at } = delivery;
  const [key, value] = hasEvent(delivery)
    ? [eventKey(delivery.event), eventJson(delivery)]
    : [delivery.id, event_at === undefined ? '' : referredEventText({ event_at, received_at })];
  return {
    topic: TOPIC.eventsSlow,
    entry: { key, value, headers: { ...headers, ...redriven } },
  };
}

/** The headers that validate sets. Absent for an outcome without a contract, and for those of earlier releases. */
function verdictHeaders(verdict: EventVerdict | undefined): Headers {
  if (verdict === undefined) return {};
  return {
    [HEADER.outcome]: verdict.outcome,
    [HEADER.contractId]: verdict.id,
    [HEADER.contractVersion]: String(verdict.version),
  };
}

function deliverAgain(delivery: DeliveryEnvelope, headers: Headers): Redrive['start'] {
  return {
    topic: TOPIC.deliveries,
    entry: {
      key: keyOf(delivery),
      value: deliveryText(delivery),
      headers: { ...headers, [HEADER.outcome]: 'retrying' },
    },
  };
}

/** Key of the records of a delivery: its order is that of its subject where its event is at hand. */
function keyOf(delivery: DeliveryEnvelope): string {
  return hasEvent(delivery) ? deliveryKey(delivery) : delivery.id;
}

function headersOf(delivery: DeliveryEnvelope, catalogPosition: number): Headers {
  const { message_id, workspace_id, environment, replay, idempotency_key } = delivery;
  return {
    ...(replay === undefined ? {} : { [HEADER.replay]: replay }),
    ...(idempotency_key === undefined ? {} : { [HEADER.replayIds]: 'first' }),
    [HEADER.catalogPosition]: String(catalogPosition),
    [HEADER.messageId]: message_id,
    [HEADER.workspaceId]: workspace_id,
    ...(hasEvent(delivery) ? { [HEADER.type]: delivery.event.type } : {}),
    [HEADER.environment]: environment,
  };
}

type Log = Pick<EventLog, 'read' | 'first'>;

/** The event of a delivery, read where it refers to; undefined where the log no longer has it. */
export async function eventOf(log: Log, delivery: DeliveryEnvelope): Promise<CanonicalEvent | undefined> {
  if (hasEvent(delivery)) return delivery.event;
  const entry = delivery.event_at && (await recordAt(log, delivery.event_at.position));
  // Another workspace's after its topic was made anew.
  if (entry?.headers[HEADER.workspaceId] !== delivery.workspace_id) return undefined;
  return parseExact<CanonicalEvent>(referencedEventText(entry));
}

/** Whether the event of a delivery can still be read. */
export async function isKept(log: Log, delivery: DeliveryEnvelope): Promise<boolean> {
  const [kept] = await keptOf(log, [delivery]);
  return kept !== undefined;
}

/** The deliveries whose events can still be read, by the first records that the log has. */
async function keptOf<D extends DeliveryEnvelope>(log: Log, deliveries: readonly D[]): Promise<D[]> {
  const firsts = new Map<string, Promise<number>>();
  const firstOf = ({ topic, partition }: Position) => {
    const name = `${topic}/${partition}`;
    const known = firsts.get(name) ?? log.first(topic, partition);
    firsts.set(name, known);
    return known;
  };
  const kept = await Promise.all(
    deliveries.map(async ({ event_at }) => {
      const position = event_at && parsePosition(event_at.position);
      return position === undefined || position.offset >= (await firstOf(position));
    }),
  );
  return deliveries.filter((_, at) => kept[at] === true);
}

/** One record; undefined where the log no longer has it. */
async function recordAt(log: Pick<EventLog, 'read'>, text: string): Promise<LogEntry | undefined> {
  const position = parsePosition(text);
  if (position === undefined) return undefined;
  const { topic, partition, offset, index } = position;
  const { entries } = await log.read(topic, partition, offset, { maxBytes: 1 });
  return entries.find(({ position: its }) => its.offset === offset && its.index === index);
}
