import type { Json, JsonObject } from '@tributary/core';
import type { VendorCall } from './messages.ts';
import type { Started } from './pack.ts';

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
