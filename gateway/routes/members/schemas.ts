import { Type } from 'typebox';
import { email } from '../../http/emails.ts';
import { closed, nullable, oneOf, times, uuid } from '../../http/schemas.ts';

export function memberBody<const Role extends string>(roles: readonly Role[]) {
  return closed(
    { email, role: oneOf(roles) },
    { examples: [{ email: 'ada@example.com', role: roles.at(-1) }] },
  );
}

export function memberReplacement<const Role extends string>(roles: readonly Role[]) {
  return closed({ role: oneOf(roles) }, { examples: [{ role: roles.at(-1) }] });
}

export function memberResource(roles: readonly string[], title: string) {
  return Type.Object(
    {
      id: uuid,
      organization_id: Type.Optional(uuid),
      workspace_id: Type.Optional(uuid),
      account_id: nullable(uuid),
      email: nullable(Type.String({ description: 'Of the account, or the one that was invited.' })),
      role: oneOf(roles),
      status: oneOf(['active', 'pending'], 'Pending: nobody with this address has signed in yet.'),
      created_by: uuid,
      ...times,
    },
    { title },
  );
}
