import { Radio, Stack, Text, TextInput } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import type { Versioned } from '../../api/client.ts';
import { ApiFormFrame } from '../../shared/forms/api-form-frame.tsx';
import { useCreateForm, useEditForm } from '../../shared/forms/use-api-form.ts';
import { notifyDone } from '../../shared/notify.ts';
import { QueryState } from '../../shared/query-state.tsx';
import { KeysChoice, revokedText } from './keys-choice.tsx';
import type { KeysDecision, Member, MemberApi, RoleText } from './member-api.ts';

interface AddProps {
  readonly members: MemberApi;
  readonly isOwner: boolean;
  readonly onClose: () => void;
}

export function AddMember({ members, isOwner, onClose }: AddProps) {
  const queries = useQueryClient();
  const roles = rolesFor(members, isOwner);
  const state = useCreateForm({
    initialValues: { email: '', role: roles[0]?.role ?? '' },
    send: (values) => members.add(values),
    onSent: ({ email, status }) => {
      void queries.invalidateQueries({ queryKey: members.queryKey });
      notifyDone(status === 'pending' ? `${email} is added and can sign in now.` : `${email} is added.`);
      onClose();
    },
  });
  return (
    <ApiFormFrame isOfTab state={state} submitLabel="Add member" onCancel={onClose}>
      <TextInput
        type="email"
        label="E-mail address"
        description="The address they sign in with. They need no account yet; no mail is sent."
        withAsterisk
        data-autofocus
        {...state.form.getInputProps('email')}
      />
      <Roles roles={roles} {...state.form.getInputProps('role')} />
    </ApiFormFrame>
  );
}

interface ChangeProps extends AddProps {
  readonly memberId: string;
  readonly isMe: boolean;
}

export function ChangeRole({ memberId, ...props }: ChangeProps) {
  const { members } = props;
  const query = useQuery({
    queryKey: [...members.queryKey, 'one', memberId],
    queryFn: () => members.read(memberId),
  });
  return (
    <QueryState query={query} rows={3}>
      {(stored) => <ChangeForm {...props} stored={stored} />}
    </QueryState>
  );
}

interface Values {
  readonly role: string;
  readonly keys: KeysDecision;
}

function ChangeForm({
  members,
  stored,
  isMe,
  isOwner,
  onClose,
}: Omit<ChangeProps, 'memberId'> & { readonly stored: Versioned<Member> }) {
  const queries = useQueryClient();
  const { id, email, role: present } = stored.value;
  const state = useEditForm<Member, Values>({
    stored,
    valuesOf: ({ role }) => ({ role, keys: 'revoke' }),
    save: async ({ role, keys }, etag) => {
      const saved = await members.change(id, etag, role, isMe ? 'revoke' : keys);
      notifyDone(`${email ?? id} is ${role} now.${revokedText(saved.value.keys)}`);
      return saved;
    },
    reload: () => members.read(id),
    onSaved: () => {
      void queries.invalidateQueries({ queryKey: members.queryKey });
      void queries.invalidateQueries({ queryKey: [members.scope, members.id] });
      onClose();
    },
  });
  const { form } = state;
  const isLower = rankOf(members, form.values.role) < rankOf(members, present);
  return (
    <ApiFormFrame
      isOfTab
      state={state}
      submitLabel="Change role"
      onCancel={onClose}
      labels={{ keys: 'Their keys' }}
    >
      <Roles roles={rolesFor(members, isOwner)} {...form.getInputProps('role')} />
      {isLower && !isMe && (
        <KeysChoice
          members={members}
          accountId={stored.value.account_id}
          value={form.values.keys}
          onChange={(keys) => form.setFieldValue('keys', keys)}
        />
      )}
      {isLower && isMe && <Text size="sm">{members.keysText.replace(', unless you keep them', '')}</Text>}
    </ApiFormFrame>
  );
}

function Roles({ roles, ...input }: { readonly roles: readonly RoleText[] } & Record<string, unknown>) {
  return (
    <Radio.Group label="Role" withAsterisk {...input}>
      <Stack gap="xs" mt="xs">
        {roles.map(({ role, text }) => (
          <Radio key={role} value={role} label={role} description={text} />
        ))}
      </Stack>
    </Radio.Group>
  );
}

/** The roles that the person may assign: only owners appoint owners. */
function rolesFor({ roles }: MemberApi, isOwner: boolean): readonly RoleText[] {
  return isOwner ? roles : roles.filter(({ role }) => role !== 'owner');
}

function rankOf({ roles }: MemberApi, wanted: string): number {
  return roles.findIndex(({ role }) => role === wanted);
}
