import {
  type AudienceResult,
  type DeliveryResult,
  type FieldChoice,
  type FieldChoices,
  type HookResult,
  isObject,
  type Json,
  type JsonObject,
  objectIn,
  type PersonDeletion,
  type PersonIdentity,
  type VendorError,
  type VendorFailure,
} from '@tributary/core';
import type { HttpSent } from './messages.ts';

/* The results of calls to vendors. What the pack returns is foreign: each member is checked. */

/** What became of the requests of a call, and what the pack made of their answers. */
export interface Called {
  readonly result: DeliveryResult;
  readonly output: Json;
  /** The failure of the last request. The pack reports many as errors of its own words. */
  readonly refusal?: DeliveryResult | undefined;
  /** The last request. */
  readonly last?: HttpSent | undefined;
}

const MAX_CHOICES = 1_000;
/** Characters of a label and the like. */
const MAX_TEXT = 500;
/** Characters of the outputs of a hook as JSON: they become part of a mapping. */
const MAX_OUTPUTS = 4_096;

export function choicesOf({ result, output, refusal }: Called): FieldChoices {
  const { choices, nextPage, error } = objectIn(output);
  if (isObject(error)) return { choices: [], error: statedIn(error, refusal) };
  const failure = failureOf(result);
  if (failure !== undefined) return { choices: [], error: errorOf(failure) };
  return {
    choices: (Array.isArray(choices) ? choices : []).slice(0, MAX_CHOICES).flatMap(choiceOf),
    ...(typeof nextPage === 'string' && nextPage !== '' ? { next_page: nextPage } : {}),
  };
}

function choiceOf(choice: Json): readonly FieldChoice[] {
  const { value, label = value, description } = objectIn(choice);
  if (value === undefined || isObject(value) || Array.isArray(value)) return [];
  const about = typeof description === 'string' ? { description: textOf(description) } : {};
  return [{ value, label: textOf(label), ...about }];
}

function textOf(value: Json | undefined): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value ?? '');
  return text.slice(0, MAX_TEXT);
}

function statedIn({ message, code }: JsonObject, refusal: DeliveryResult | undefined): VendorError {
  const failure = refusal === undefined ? undefined : failureOf(refusal);
  const why = failure === undefined ? '' : ` (${errorOf(failure).message})`;
  return { message: `${textOf(message)}${why}`, code: textOf(code) };
}

function errorOf({ outcome, reason, status, response }: VendorFailure): VendorError {
  const code = status ?? (outcome === 'retry' ? 'unanswered' : 'not_sent');
  return { message: response === undefined ? reason : `${reason}: ${response}`, code: String(code) };
}

/** `unknown` where a request may have created something: a hook that sent none did nothing. */
export function hookResultOf({ result, output, refusal, last }: Called): HookResult {
  const { savedData, successMessage, error } = objectIn(output);
  if (isObject(error)) {
    const isKnown = refusal?.outcome !== 'retry';
    return { outcome: isKnown ? 'refused' : 'unknown', error: statedIn(error, refusal) };
  }
  const failure = failureOf(result);
  if (failure !== undefined)
    return {
      outcome: failure.outcome === 'retry' && last !== undefined ? 'unknown' : 'refused',
      error: errorOf(failure),
    };
  const outputs = objectIn(savedData);
  if (JSON.stringify(outputs).length > MAX_OUTPUTS)
    return { outcome: 'unknown', error: { message: 'the outputs are too long', code: 'too_long' } };
  const message = typeof successMessage === 'string' ? { message: textOf(successMessage) } : {};
  return { outcome: 'done', outputs, ...message };
}

/** A deletion that made no request deleted nothing. */
export function deletionOf({ result, last }: Called): PersonDeletion {
  if (result.outcome !== 'delivered') return failureOf(result) ?? NOT_SENT;
  const { status = 0, response } = result;
  const isSearch = last?.method === 'GET' || last?.url.endsWith('/search') === true;
  return {
    outcome: isSearch ? 'absent' : 'accepted',
    status,
    ...(response === undefined ? {} : { response }),
  };
}

const NOT_SENT = { outcome: 'refused', reason: 'not sent: the destination made no request of it' } as const;

export function audienceOf({ result, output }: Called): AudienceResult {
  const failure = failureOf(result);
  if (failure !== undefined) return failure;
  const { externalId } = objectIn(output);
  if ((typeof externalId !== 'string' && typeof externalId !== 'number') || externalId === '')
    return { outcome: 'refused', reason: 'the answer has no id of the audience' };
  return { outcome: 'found', external_id: String(externalId) };
}

/** Undefined where the requests succeeded, and where none was made. */
function failureOf(result: DeliveryResult): VendorFailure | undefined {
  if (result.outcome !== 'retry' && result.outcome !== 'dead') return undefined;
  const { reason, status, response } = result;
  const shown = {
    reason,
    ...(status === undefined ? {} : { status }),
    ...(response === undefined ? {} : { response }),
  };
  if (result.outcome === 'dead') return { outcome: 'refused', ...shown };
  return { outcome: 'retry', ...shown, ...(result.afterMs === undefined ? {} : { afterMs: result.afterMs }) };
}

/** Characters that lead nowhere else in a URL or in a text of another language, such as GraphQL. */
const PLAIN_ID = /^(?!\.{1,2}$)[\p{L}\p{N}_.@+:=|~-]+$/u;

/**
 * Whether a request to delete a person names them as one value: the pack puts ids into paths as they are, and ids of
 * events are the producer's, so that `../teams/7` would delete something else.
 */
export function isAboutPerson({ url, body }: HttpSent, { user_id, anonymous_id }: PersonIdentity): boolean {
  const sent = Buffer.from(body, 'base64').toString('utf8');
  return [user_id, anonymous_id].every(
    (id) =>
      id === undefined ||
      PLAIN_ID.test(id) ||
      (encodeURIComponent(id) !== id && `${url} ${sent}`.includes(encodeURIComponent(id))) ||
      sent.includes(JSON.stringify(id)),
  );
}
