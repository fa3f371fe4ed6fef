import { Code, List, Radio, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api, pageOf } from '../../api/client.ts';
import { workspacePath } from '../../frame/workspace.tsx';
import type { KeysDecision, MemberApi, MemberKey } from './member-api.ts';

interface Props {
  readonly members: MemberApi;
  /** Null for a person that never signed in: there are no keys of such a person. */
  readonly accountId: string | null;
  readonly value: KeysDecision;
  readonly onChange: (value: KeysDecision) => void;
}

/** Asks whether the keys that a person created are revoked with the role, and lists these keys. */
export function KeysChoice({ members, accountId, value, onChange }: Props) {
  if (accountId === null) return null;
  return (
    <Stack gap="xs">
      <Radio.Group
        label="Keys that the person created"
        description={members.keysText}
        value={value}
        onChange={(next) => onChange(next as KeysDecision)}
      >
        <Stack gap="xs" mt="xs">
          <Radio
            value="revoke"
            label="Revoke them"
            description="Programs that call with them are refused at once."
          />
          <Radio
            value="keep"
            label="Keep them"
            description="Programs continue; the keys are yours to look after now."
          />
        </Stack>
      </Radio.Group>
      <ActiveKeys members={members} accountId={accountId} />
    </Stack>
  );
}

interface NamedKey {
  readonly id: string;
  readonly name: string;
  readonly key_prefix: string;
}

function ActiveKeys({ members, accountId }: { readonly members: MemberApi; readonly accountId: string }) {
  const { data } = useQuery({
    queryKey: [...members.queryKey, 'keys', accountId],
    queryFn: () => activeKeysOf(members, accountId),
  });
  if (data === undefined || data.length === 0) return null;
  return (
    <>
      <Text size="sm">
        {members.scope === 'workspace' ? 'API keys of the person here:' : 'Client keys of the person:'}
      </Text>
      <List size="sm">
        {data.map(({ id, name, key_prefix }) => (
          <List.Item key={id}>
            {name} <Code>{key_prefix}…</Code>
          </List.Item>
        ))}
      </List>
    </>
  );
}

async function activeKeysOf({ scope, id }: MemberApi, accountId: string): Promise<readonly NamedKey[]> {
  const query = { created_by: accountId, status: 'active' } as const;
  const page =
    scope === 'workspace'
      ? await pageOf<NamedKey>(
          api.GET('/api/v1/workspaces/{workspaceId}/api-keys', { params: { ...workspacePath(id), query } }),
        )
      : await pageOf<NamedKey>(
          api.GET('/api/v1/organizations/{organizationId}/client-keys', {
            params: { path: { organizationId: id }, query },
          }),
        );
  return page.items;
}

/** The revoked keys, for the notice. */
export function revokedText(keys: readonly MemberKey[]): string {
  const revoked = keys.filter(({ status }) => status === 'revoked');
  if (revoked.length === 0) return '';
  return ` Revoked: ${revoked.map(({ name, key_prefix }) => `${name} (${key_prefix}…)`).join(', ')}.`;
}
