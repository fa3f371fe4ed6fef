import type { Json, JsonObject } from '@tributary/core';
import type { ActionOutcome, EventOutcome, VendorCall } from './messages.ts';
import type { BatchCall, PackStatus, Started } from './pack.ts';

/** Characters of an output as JSON. */
const MAX_OUTPUT = 1_024 * 1_024;

/** Makes a call of a destination to its vendor, in the process of the pack. The output is as the pack has it. */
export async function callVendor(
  started: Started,
  call: VendorCall,
  settings: JsonObject,
  accessToken: string,
): Promise<Json> {
  const text = JSON.stringify((await outputOf(started, call, settings, accessToken)) ?? null);
  if (text.length > MAX_OUTPUT) throw new RangeError('the answer is too long');
  return JSON.parse(text) as Json;
}

async function outputOf(
  { definition, running }: Started,
  call: VendorCall,
  settings: JsonObject,
  accessToken: string,
): Promise<unknown> {
  const auth = { accessToken, refreshToken: '' };
  // Outside of actions the pack takes the token from the settings.
  const authorized = accessToken === '' ? settings : { ...settings, oauth: { access_token: accessToken } };
  switch (call.kind) {
    case 'choices': {
      const { action, field, payload, page, query, hook = '', inputs: hookInputs } = call;
      const { hooks } = own(definition.actions, action, 'action');
      const dynamic =
        call.hook === undefined
          ? undefined
          : own(own(hooks, hook, 'hook').inputFields, field, 'input').dynamic;
      const dynamicFieldContext = { query };
      const data = { settings, auth, payload, page, hookInputs, dynamicFieldContext };
      return running.executeDynamicField(action, field, data, dynamic);
    }
    case 'hook': {
      const { action, hook, payload, inputs: hookInputs, outputs } = call;
      own(own(definition.actions, action, 'action').hooks, hook, 'hook');
      const hookOutputs = outputs === undefined ? {} : { [hook]: { inputs: hookInputs, outputs } };
      return running.actions[action]?.executeHook(hook, { settings, auth, payload, hookInputs, hookOutputs });
    }
    case 'delete': {
      const { user_id: userId, anonymous_id: anonymousId } = call;
      await running.onDelete?.({ userId, anonymousId }, authorized);
      return null;
    }
    case 'create-audience': {
      const { id, key, name: audienceName, settings: audienceSettings } = call;
      const personas = { computation_id: id, computation_key: key, namespace: '' };
      return running.createAudience({ settings: authorized, audienceName, audienceSettings, personas });
    }
    case 'find-audience': {
      const { external_id: externalId, settings: audienceSettings } = call;
      return running.getAudience({ settings: authorized, externalId, audienceSettings });
    }
  }
}

function own<T>(members: Readonly<Record<string, T>> | undefined, name: string, what: string): T {
  const found = members !== undefined && Object.hasOwn(members, name) ? members[name] : undefined;
  if (found === undefined) throw new TypeError(`there is no ${what} ${name}`);
  return found;
}

/** Characters of a message that are kept. */
const MAX_MESSAGE = 500;

/** A call of an action with some events of a batch. */
export interface BatchAttempt<Token> {
  readonly performed: BatchCall['performed'];
  readonly error?: ActionOutcome['error'];
  /** For each of the events. */
  readonly multistatus: readonly PackStatus[];
  readonly token?: Token;
  /** The last answer refuses the token in its body. */
  readonly isTokenRefused: boolean;
}

/**
 * Runs a batch of `count` events: again without those that the action leaves out, as it may count by their places, and again
 * with those alone whose token was refused.
 */
export async function runBatch<Token>(
  count: number,
  attempt: (places: readonly number[]) => Promise<BatchAttempt<Token>>,
  renews: (token: Token) => boolean,
): Promise<Pick<ActionOutcome, 'each' | 'error'>> {
  const each: (EventOutcome | null)[] = Array.from({ length: count }, () => null);
  let isRenewed = false;
  let failed: ActionOutcome['error'];
  const calls: (readonly number[])[] = [[...each.keys()]];
  // Calls are appended during the iteration.
  for (const places of calls) {
    const { performed, error, multistatus, token, isTokenRefused } = await attempt(places);
    const placesOf = (test: (status: PackStatus | undefined) => boolean) =>
      places.filter((_, at) => test(multistatus[at]));
    if (error !== undefined) failed = error;
    else if (performed === 'apart')
      calls.push(
        placesOf(isOk),
        placesOf((status) => !isOk(status)),
      );
    else if (performed === 'not' || performed === 'incomplete') {
      for (const [at, place] of places.entries())
        if (!isOk(multistatus[at])) each[place] = { message: textOf(multistatus[at]) };
      if (performed === 'incomplete') calls.push(placesOf(isOk));
    } else {
      if (performed === 'each')
        for (const [at, place] of places.entries()) each[place] = saidOf(multistatus[at]);
      const refused = placesOf((status) => status?.status === 401 || (isTokenRefused && !isOk(status)));
      if (isRenewed || refused.length === 0 || token === undefined || !renews(token)) continue;
      isRenewed = true;
      calls.push(refused);
    }
  }
  return failed === undefined ? { each } : { each, error: failed };
}

function isOk(status: PackStatus | undefined): boolean {
  return typeof status?.status === 'number' && status.status >= 200 && status.status < 300;
}

function textOf(status: PackStatus | undefined): string {
  return typeof status?.errormessage === 'string' ? status.errormessage.slice(0, MAX_MESSAGE) : '';
}

function saidOf(status: PackStatus | undefined): EventOutcome | null {
  return typeof status?.status === 'number' ? { status: status.status, message: textOf(status) } : null;
}
