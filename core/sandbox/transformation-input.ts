import type { Environment } from '../event/event.ts';
import type { SandboxInput } from './sandbox.ts';

/** The second argument of `transform(event, context)`, frozen to its depths. */
export interface TransformationContext {
  readonly workspace_id: string;
  /** The rule it runs for, as it is called now; both null in a test. */
  readonly rule_id: string | null;
  readonly rule_name: string | null;
  readonly environment: Environment;
  /** What the event's contract said of it; id and version are null where none judged it. */
  readonly contract: {
    readonly outcome: 'accepted' | 'warned' | 'omitted';
    readonly id: string | null;
    readonly version: number | null;
  };
}

/** What decides a run beside the event and its context. */
export interface RunIdentity {
  readonly message_id: string;
  /** ISO 8601: the time it is in the run. */
  readonly received_at: string;
}

/**
 * One event for the sandbox. The clock stands at the event's receipt and random numbers follow from rule, environment
 * and message, as the ids of its deliveries do: whoever runs it again gets the same.
 */
export function transformationInput(
  event: string,
  context: TransformationContext,
  { message_id, received_at }: RunIdentity,
): SandboxInput {
  const at = Date.parse(received_at);
  return {
    event,
    context: JSON.stringify(context),
    at: Number.isNaN(at) ? 0 : at,
    seed: `${context.rule_id ?? ''}:${context.environment}:${message_id}`,
  };
}
