import { errors } from '@elastic/elasticsearch';
import { InvalidInput, messageOf, TributaryError, Unavailable } from '@tributary/core';

/** What no repetition makes right: a request that is malformed, or larger than the server takes. */
const NEVER = [400, 413];
/** Told as a malformed request, but an operator opens it again. */
const CLOSED = 'index_closed_exception';

/**
 * `InvalidInput` for a request that can never succeed, `Unavailable` for everything else that Elasticsearch or the way
 * to it answers: it passes by itself or by an operator's hand. Errors of ours and of the language stay what they are.
 * No message repeats a reason of the server, which may quote what was sent.
 */
export function translateElasticsearchError(error: unknown): unknown {
  if (error instanceof TributaryError) return error;
  if (error instanceof TypeError || error instanceof RangeError) return error;
  if (!(error instanceof errors.ResponseError))
    return new Unavailable(`Elasticsearch: ${messageOf(error)}`, { cause: error });
  return refused(error.statusCode ?? 0, errorTypeOf(error.body));
}

/** What a status of Elasticsearch, of a request or of one entry of a bulk, comes to. */
export function refused(status: number, type: string | undefined): InvalidInput | Unavailable {
  const message = `Elasticsearch answered ${status}${type === undefined ? '' : ` (${type})`}`;
  return NEVER.includes(status) && type !== CLOSED ? new InvalidInput(message) : new Unavailable(message);
}

/** Why no call can succeed as things are set up; undefined where waiting may help. */
export function refusalOf(error: unknown): string | undefined {
  if (error instanceof errors.ProductNotSupportedError) return 'what answers there is no Elasticsearch';
  if (error instanceof errors.ResponseError && error.statusCode === 401)
    return 'the credentials are not accepted';
  return undefined;
}

/** What kind of error the body of an answer tells of. */
export function errorTypeOf(body: unknown): string | undefined {
  const { error } = (body ?? {}) as { error?: { type?: unknown } | string };
  return typeof error === 'object' && typeof error.type === 'string' ? error.type : undefined;
}
