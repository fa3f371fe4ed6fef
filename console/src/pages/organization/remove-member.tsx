import { List, Stack } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { notifyDone } from '../../shared/notify.ts';
import { KeysChoice, revokedText } from './keys-choice.tsx';
import type { KeysDecision, Member, MemberApi } from './member-api.ts';

interface Props {
  readonly members: MemberApi;
  readonly member: Member;
  readonly isMe: boolean;
}

/** Removes a member, after a dialog that explains the effect. People may remove themselves, which revokes their keys. */
export function RemoveMember({ members, member: { id, email, account_id, status }, isMe }: Props) {
  const queries = useQueryClient();
  const [keys, setKeys] = useState<KeysDecision>('revoke');
  const name = email ?? id;
  const remove = async () => {
    const removed = await members.remove(id, isMe ? 'revoke' : keys);
    await queries.invalidateQueries({ queryKey: members.queryKey });
    notifyDone(`${name} is removed.${revokedText(removed.keys)}`);
  };
  return (
    <ConfirmButton
      label={isMe ? 'Leave' : 'Remove'}
      size="xs"
      question={isMe ? `Leave the ${members.scope}?` : `Remove ${name}?`}
      action={remove}
    >
      <Stack>
        <List size="sm">
          {status === 'pending' ? (
            <List.Item>
              The invitation ends: the address gets no access when somebody signs in with it.
            </List.Item>
          ) : (
            <List.Item>
              {isMe ? 'You lose' : 'The person loses'} access at once; open pages and streams end within a
              second.
            </List.Item>
          )}
          <List.Item>What {isMe ? 'you' : 'they'} created stays: contracts, rules, destinations.</List.Item>
          {isMe && <List.Item>{members.keysText.replace(', unless you keep them', '')}</List.Item>}
          {members.scope === 'organization' && (
            <List.Item>An organization keeps its last owner: make somebody else an owner first.</List.Item>
          )}
        </List>
        {!isMe && <KeysChoice members={members} accountId={account_id} value={keys} onChange={setKeys} />}
      </Stack>
    </ConfirmButton>
  );
}
