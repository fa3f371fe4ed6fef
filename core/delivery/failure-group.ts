/** The fields of an outcome that its group depends on. */
interface GroupedOutcome {
  readonly delivery: {
    readonly destination_id: string;
    readonly rule_id: string;
    readonly attempts: readonly { readonly status?: number }[];
  };
  readonly status: string;
  readonly cause?: string;
  readonly reason?: string;
}

/** Bound of the text that names a kind of failure. */
const MAX_FAILURE = 160;
const VARIABLE = '…';

/** The values by which deliveries that failed in the same way are grouped. */
export type FailureGroup = {
  readonly status: 'dead' | 'retrying';
  readonly destination_id: string;
  readonly rule_id: string;
  /** The cause of a dead delivery; empty for other deliveries, and for those of an older release. */
  readonly cause: string;
  /** The status that the destination answered at last; empty where there was none. */
  readonly response_status: string;
  /** The reason, with the parts that differ from delivery to delivery replaced. */
  readonly failure: string;
};

/** The group of an outcome; undefined for one that is neither dead nor retried. */
export function failureGroupOf(outcome: GroupedOutcome): FailureGroup | undefined {
  const { delivery, status, cause, reason } = outcome;
  if (status !== 'dead' && status !== 'retrying') return undefined;
  const responseStatus = delivery.attempts.at(-1)?.status;
  return {
    status,
    destination_id: delivery.destination_id,
    rule_id: delivery.rule_id,
    cause: cause ?? '',
    response_status: responseStatus === undefined ? '' : String(responseStatus),
    failure: kindOfFailure(reason ?? '', responseStatus),
  };
}

const ID = /\b[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\b/gi;
const QUOTED = /"[^"]*"|'[^']*'|`[^`]*`/g;
const ADDRESS = /\b[^\s@]+@[^\s@]+\.[^\s@]+\b/g;
/** A number, and an identifier of eight digits and letters or more with a digit among them. */
const NUMBER = /\b(?:\d+(?:\.\d+)*|(?=[a-f]*\d)[0-9a-f]{8,})\b/gi;

/**
 * A reason without ids, quoted texts, addresses and numbers, so that failures of one kind have one text. The status that
 * the destination answered stays.
 */
export function kindOfFailure(reason: string, responseStatus?: number): string {
  const kept = String(responseStatus ?? '');
  return reason
    .replace(ID, VARIABLE)
    .replace(QUOTED, VARIABLE)
    .replace(ADDRESS, VARIABLE)
    .replace(NUMBER, (found) => (found === kept ? found : VARIABLE))
    .slice(0, MAX_FAILURE);
}
