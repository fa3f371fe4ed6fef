import { Alert, Button, Code, Group, List, Stack, Table, Text, Title } from '@mantine/core';
import { useState } from 'react';
import type { Schemas } from '../../api/client.ts';
import { useMay } from '../../frame/workspace.tsx';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import type { ProfileLookup } from '../../shared/profile-lookup.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { IdentityButton } from './identity-dialog.tsx';
import { splitProfile, unlinkIdentity } from './profile-calls.ts';
import { ActionsHead, ProfileCard, type ProfileCardProps } from './profile-card.tsx';
import { type HeldIdentity, identitiesOf, linkedOf } from './profile-record.ts';

interface Props extends ProfileCardProps {
  readonly onLookUp: (lookup: ProfileLookup) => void;
}

/** The identities of the person, and the profiles that were merged into this one. */
export function IdentitiesCard({ onLookUp, ...props }: Props) {
  const { scope, record, onChanged } = props;
  const mayWrite = useMay('editor');
  const identities = identitiesOf(record);
  const linked = linkedOf(record);
  const [split, setSplit] = useState<Schemas['ProfileSplit']>();
  return (
    <ProfileCard
      title="Identities"
      action={
        mayWrite && (
          <IdentityButton label="Add identity" scope={scope} ucid={record.ucid} onWritten={onChanged} />
        )
      }
    >
      {identities.length === 0 ? (
        <Text c="dimmed">None is left: the ucid alone finds this profile.</Text>
      ) : (
        <Table.ScrollContainer minWidth={480}>
          <Table aria-label="Identities" verticalSpacing="xs">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Type</Table.Th>
                <Table.Th>Identity</Table.Th>
                <Table.Th>Last written</Table.Th>
                {mayWrite && <ActionsHead />}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {identities.map((identity) => (
                <IdentityRow
                  key={`${identity.type} ${identity.value}`}
                  identity={identity}
                  mayWrite={mayWrite}
                  onUnlinked={() => onLookUp({ type: 'ucid', value: record.ucid })}
                  {...props}
                />
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {split !== undefined && <SplitDone split={split} onLookUp={onLookUp} />}
      {linked.length > 0 && (
        <Stack gap="xs">
          <Title order={3} size="h5">
            Linked profiles
          </Title>
          <Text size="sm" c="dimmed">
            They became part of this one. Their ucids lead here.
          </Text>
          {linked.map((ucid) => (
            <Group key={ucid} justify="space-between">
              <Code>{ucid}</Code>
              {mayWrite && (
                <ConfirmButton
                  label="Split off"
                  name={`Split off ${ucid}`}
                  question="Split this profile off?"
                  size="compact-sm"
                  action={async () => {
                    setSplit(await splitProfile(scope, ucid));
                    onChanged('The profile is split off');
                  }}
                >
                  <SplitEffects ucid={ucid} />
                </ConfirmButton>
              )}
            </Group>
          ))}
        </Stack>
      )}
    </ProfileCard>
  );
}

interface RowProps extends ProfileCardProps {
  readonly identity: HeldIdentity;
  readonly mayWrite: boolean;
  readonly onUnlinked: () => void;
}

function IdentityRow({ identity, mayWrite, scope, record, onChanged, onUnlinked }: RowProps) {
  const { type, value, at } = identity;
  const unlink = async () => {
    await unlinkIdentity(scope, record.ucid, identity);
    onUnlinked();
    onChanged(`The ${type} is unlinked`);
  };
  return (
    <Table.Tr>
      <Table.Td>{type}</Table.Td>
      <Table.Td style={{ overflowWrap: 'anywhere' }}>{value}</Table.Td>
      <Table.Td>
        <Timestamp value={at} relative />
      </Table.Td>
      {mayWrite && (
        <Table.Td>
          <Group justify="flex-end">
            <ConfirmButton
              label="Unlink"
              name={`Unlink ${value}`}
              question={`Unlink this ${type}?`}
              size="compact-xs"
              variant="subtle"
              action={unlink}
            >
              <Stack gap="xs">
                <Code block>{value}</Code>
                <List size="sm">
                  <List.Item>It then belongs to no profile, and finds none. Attributes stay.</List.Item>
                  <List.Item>
                    A merged profile, or a device with values of its own, becomes a profile again.
                  </List.Item>
                  <List.Item>
                    No event brings it back to this profile. It may become another profile's.
                  </List.Item>
                  <List.Item>To undo it, add the identity to the profile again.</List.Item>
                </List>
              </Stack>
            </ConfirmButton>
          </Group>
        </Table.Td>
      )}
    </Table.Tr>
  );
}

function SplitEffects({ ucid }: { readonly ucid: string }) {
  return (
    <Stack gap="xs">
      <Text size="sm">
        <Code>{ucid}</Code> becomes a profile of its own again.
      </Text>
      <List size="sm">
        <List.Item>Each of the two has what was written about its own identities.</List.Item>
        <List.Item>Values that calls wrote after the merge about both stay here.</List.Item>
        <List.Item>
          Events make the two no more one. To undo the split, add an identity of one to the other.
        </List.Item>
      </List>
    </Stack>
  );
}

interface SplitDoneProps {
  readonly split: Schemas['ProfileSplit'];
  readonly onLookUp: (lookup: ProfileLookup) => void;
}

function SplitDone({ split: { ucid, kept, lost }, onLookUp }: SplitDoneProps) {
  return (
    <Alert color="teal" title="Split off" role="status">
      <Stack gap="xs" align="flex-start">
        <Text size="sm">
          <Code>{ucid}</Code> is a profile of its own.
        </Text>
        <Pointers title="Written after the merge about both, so it stayed here:" pointers={kept} />
        <Pointers title="One of the two may have had an older value, which was lost:" pointers={lost} />
        <Button size="xs" variant="light" onClick={() => onLookUp({ type: 'ucid', value: ucid })}>
          Open it
        </Button>
      </Stack>
    </Alert>
  );
}

interface PointersProps {
  readonly title: string;
  readonly pointers: readonly string[] | null | undefined;
}

function Pointers({ title, pointers }: PointersProps) {
  if (pointers == null || pointers.length === 0) return null;
  return (
    <>
      <Text size="sm">{title}</Text>
      <List size="sm">
        {pointers.map((pointer) => (
          <List.Item key={pointer}>
            <Code>{pointer}</Code>
          </List.Item>
        ))}
      </List>
    </>
  );
}
