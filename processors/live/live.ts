import {
  type BatchStage,
  type CanonicalEvent,
  ENVIRONMENTS,
  HEADER,
  InvalidInput,
  type LiveTail,
  type LogEntry,
  type Metrics,
  parseExact,
  parseObject,
  type RejectedEvent,
  type TailedEvent,
  TOPIC,
  type Violation,
} from '@tributary/core';
import { eventOf, violationsIn } from '../event-record.ts';

export interface LiveDependencies {
  readonly liveTail: LiveTail;
  readonly metrics: Metrics;
}

/**
 * The stage `live`: appends each event to the tail of its workspace once, as the tail marks the offset up to which it has
 * taken a partition. A mark behind the end of the partition is from a topic that was recreated. The end must be read after
 * the mark, as another process may move it.
 */
export function live({ liveTail, metrics }: LiveDependencies): BatchStage['process'] {
  return async ({ topic, partition, entries }, context) => {
    const events = entries.map((entry) => liveEventOf(topic, entry));
    const mark = await liveTail.append({ topic, partition, events });
    if (mark > 0 && context.end !== undefined) {
      const end = await context.end();
      if (mark > end) await liveTail.append({ topic, partition, events, end });
    }
    metrics.count('tributary_events_tailed_total', { topic }, entries.length);
    return [];
  };
}

/**
 * An event of `events.accepted` or `events.rejected` for the live stream: the canonical event with its outcome and its
 * violations in the form of the API. Without violations, the usual case, the event is not parsed.
 */
function liveEventOf(topic: string, entry: LogEntry): TailedEvent {
  const { headers, position } = entry;
  const workspaceId = headers[HEADER.workspaceId];
  const environment = ENVIRONMENTS.find((known) => known === headers[HEADER.environment]);
  if (!workspaceId) throw new InvalidInput('no workspace id');
  if (environment === undefined) throw new InvalidInput('no environment');
  const data = topic === TOPIC.rejected ? rejectedData(entry) : acceptedData(entry);
  return { workspaceId, environment, data, offset: position.offset };
}

function acceptedData(entry: LogEntry): string {
  const { headers, value } = entry;
  const outcome = headers[HEADER.outcome] ?? 'accepted';
  const isPlain = headers[HEADER.violations] === undefined && isOneLineObject(value);
  if (isPlain) return `${value.slice(0, -1)},"outcome":${JSON.stringify(outcome)},"violations":[]}`;
  const event = eventOf(entry);
  return dataOf(parseExact<CanonicalEvent>(value), outcome, violationsIn(headers, event));
}

function rejectedData({ value }: LogEntry): string {
  const { event, violations } = parseObject(value, parseExact) as unknown as Partial<RejectedEvent>;
  if (event === undefined || violations === undefined) throw new InvalidInput('no rejected event');
  return dataOf(event, 'rejected', violations);
}

function dataOf(event: CanonicalEvent, outcome: string, violations: readonly Violation[]): string {
  const shown = violations.map(({ workspace_id: _, ...violation }) => violation);
  return JSON.stringify({ ...event, outcome, violations: shown });
}

/** Whether the text has the form that the gateway writes: an object without line breaks. */
function isOneLineObject(value: string): boolean {
  return value.startsWith('{"') && value.endsWith('}') && !/[\n\r]/.test(value);
}
