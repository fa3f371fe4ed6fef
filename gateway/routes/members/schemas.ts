import { Type } from 'typebox';
import {
  closed,
  listOf,
  name,
  nullable,
  oneOf,
  optional,
  removedAs,
  times,
  uuid,
} from '../../resources/schemas.ts';
import { email } from '../../resources/values.ts';

export function memberBody<const Role extends string>(roles: readonly Role[]) {
  return closed(
    { email, role: oneOf(roles) },
    { examples: [{ email: 'ada@example.com', role: roles.at(-1) }] },
  );
}

/** What becomes of the keys of somebody who loses a role. */
const keysDecision = oneOf(
  ['revoke', 'keep'],
  'What becomes of the API keys and client keys that the person made and their role no longer covers. To keep them is for somebody else than the person, by ID token. Write keys stay. Default `revoke`.',
);

export function memberReplacement<const Role extends string>(roles: readonly Role[]) {
  return closed({ role: oneOf(roles), keys: optional(keysDecision) }, { examples: [{ role: roles.at(-1) }] });
}

export const removalQuery = closed({ keys: Type.Optional(keysDecision) });

const memberKeys = listOf(
  Type.Object({
    id: uuid,
    type: oneOf(['api_key', 'write_key', 'client_key']),
    name,
    key_prefix: Type.String(),
    workspace_id: nullable(uuid),
    organization_id: nullable(uuid),
    status: oneOf(['active', 'revoked'], 'As it is since this call.'),
  }),
  'The keys that the person made here: those that were active before.',
);

export const removedMember = Type.Object({ ...removedAs('deleted').properties, keys: memberKeys });

export function memberResource(roles: readonly string[], title: string) {
  return Type.Object(memberFields(roles), { title });
}

/** A member beside the keys that a change of the role was about. */
export function changedMember(roles: readonly string[], title: string) {
  return Type.Object({ ...memberFields(roles), keys: memberKeys }, { title: `Changed${title}` });
}

function memberFields(roles: readonly string[]) {
  return {
    id: uuid,
    organization_id: Type.Optional(uuid),
    workspace_id: Type.Optional(uuid),
    account_id: nullable(uuid),
    email: nullable(Type.String({ description: 'Of the account, or the one that was invited.' })),
    role: oneOf(roles),
    status: oneOf(['active', 'pending'], 'Pending: nobody with this address has signed in yet.'),
    created_by: uuid,
    ...times,
  };
}
