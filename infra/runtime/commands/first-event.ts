import { type LiveTail, type Logger, messageOf, type TailFollower, Unavailable } from '@tributary/core';

/**
 * Follows a workspace until its first event after the call. `event` stays pending if there is none, and where the live
 * tail does not answer, which is logged.
 */
export async function followFirstEvent(
  liveTail: Pick<LiveTail, 'follow'>,
  workspaceId: string,
  logger: Logger,
): Promise<{ readonly event: Promise<ArrivedEvent> }> {
  const { promise, resolve } = Promise.withResolvers<ArrivedEvent>();
  let take: () => void = () => {};
  let follower: TailFollower;
  try {
    follower = await liveTail.follow(workspaceId, { wake: () => take() });
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    logger.warn({ error: messageOf(error) }, 'the first event will not be announced');
    return { event: promise };
  }
  follower.take(Number.POSITIVE_INFINITY); // those from before: a tail in Redis outlives the process
  take = () => {
    for (const item of follower.take(Number.POSITIVE_INFINITY)) {
      if (item.kind !== 'event') continue;
      take = () => {};
      follower.close();
      return resolve({ ...JSON.parse(item.event.data), environment: item.event.environment });
    }
  };
  take();
  return { event: promise };
}

/** The fields of an event in the live stream that are used here. */
export interface ArrivedEvent {
  readonly type: string;
  readonly message_id: string;
  readonly environment: string;
  readonly outcome: string;
  readonly event?: string | null;
  readonly user_id?: string | null;
  readonly anonymous_id?: string | null;
}

/** One line about the first event: what it was, what its contract said, and where to look. */
export function describeFirstEvent(arrived: ArrivedEvent, urlOfEvent: (messageId: string) => string): string {
  const { type, event, user_id, anonymous_id, environment, outcome, message_id } = arrived;
  const name = event ? ` "${printable(event)}"` : '';
  const subject = user_id ?? anonymous_id;
  const from = subject ? ` from ${printable(subject)}` : '';
  const where = environment === 'development' ? ' (development)' : '';
  return `The first event is here: ${type}${name}${from}${where}, ${outcome}. See ${urlOfEvent(message_id)}`;
}

/** Longest part of an event in the line. */
const MAX_CHARACTERS = 60;

/** A producer's text for a terminal, which acts on control characters. */
function printable(text: string): string {
  const characters = [...text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '?')];
  return characters.length <= MAX_CHARACTERS
    ? characters.join('')
    : `${characters.slice(0, MAX_CHARACTERS).join('')}...`;
}
