import { Badge, Box, Button, Group, Modal, Select, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { PlusIcon } from '@radix-ui/react-icons';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { meQuery } from '../../frame/menu.tsx';
import { EmptyState } from '../../shared/empty-state.tsx';
import { type Column, PagedList, restarted } from '../../shared/paged-list.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import type { Member, MemberApi } from './member-api.ts';
import { AddMember, ChangeRole } from './member-forms.tsx';
import { RemoveMember } from './remove-member.tsx';
import type { MembersFilter } from './search.ts';

interface Props {
  readonly members: MemberApi;
  readonly filter: MembersFilter;
  readonly onFilter: (filter: MembersFilter) => void;
  /** Whether the signed-in person may add, change and remove members. */
  readonly isAdmin: boolean;
  /** Whether the signed-in person may change an owner and appoint one. */
  readonly isOwner: boolean;
}

/** The members of an organization or a workspace. */
export function Members({ members, filter, onFilter, isAdmin, isOwner }: Props) {
  const [isAdding, { open, close }] = useDisclosure(false);
  const [changed, setChanged] = useState<Member>();
  const { data: me } = useQuery(meQuery);
  const add = isAdmin && (
    <Button leftSection={<PlusIcon aria-hidden />} onClick={open}>
      Add member
    </Button>
  );
  const roles = members.roles.map(({ role }) => role);
  const mayTouch = ({ role }: Member) => isAdmin && (isOwner || role !== 'owner');
  const isMe = ({ account_id }: Member) => account_id !== null && account_id === me?.account_id;
  const columns: readonly Column<Member>[] = [
    { title: 'E-mail', cell: (member) => <Email member={member} isMe={isMe(member)} /> },
    { title: 'Role', cell: ({ role }) => <Badge variant="light">{role}</Badge> },
    {
      title: 'Added',
      sort: 'created_at',
      cell: ({ created_at }) => <Timestamp value={created_at} relative />,
    },
    {
      title: 'Actions',
      cell: (member) => (
        <Group gap="xs" wrap="nowrap">
          {mayTouch(member) && (
            <Button
              size="xs"
              variant="default"
              aria-label={`Change role of ${nameOf(member)}`}
              onClick={() => setChanged(member)}
            >
              Change role
            </Button>
          )}
          {(mayTouch(member) || isMe(member)) && (
            <RemoveMember members={members} member={member} isMe={isMe(member)} />
          )}
        </Group>
      ),
    },
  ];
  return (
    <Stack>
      <PagedList
        label={`Members of the ${members.scope}`}
        queryKey={members.queryKey}
        load={(search, signal) => members.list(search, signal)}
        search={filter}
        onSearch={onFilter}
        columns={columns}
        rowKey={({ id }) => id}
        minWidth={640}
        filters={
          <>
            <Select
              aria-label="Role"
              placeholder="Any role"
              clearable
              data={roles}
              value={filter.role ?? null}
              onChange={(role) => onFilter(restarted(filter, { role: role ?? '' }))}
            />
            <Select
              aria-label="Status"
              placeholder="Any status"
              clearable
              data={[
                { value: 'active', label: 'signed in' },
                { value: 'pending', label: 'invited' },
              ]}
              value={filter.status ?? null}
              onChange={(status) => onFilter(restarted(filter, { status: status ?? '' }))}
            />
            <Box ml="auto">{add}</Box>
          </>
        }
        empty={
          <EmptyState title="Nobody is added here">
            <Text c="dimmed">
              Owners and admins of the organization are admins of each of its workspaces without being listed
              here. Add others by their e-mail address.
            </Text>
            {add}
          </EmptyState>
        }
      />
      <Modal
        opened={isAdding}
        onClose={close}
        title={`Add a member to the ${members.scope}`}
        closeOnClickOutside={false}
      >
        <AddMember members={members} isOwner={isOwner} onClose={close} />
      </Modal>
      <Modal
        opened={changed !== undefined}
        onClose={() => setChanged(undefined)}
        title={changed === undefined ? '' : `Change the role of ${nameOf(changed)}`}
        closeOnClickOutside={false}
      >
        {changed !== undefined && (
          <ChangeRole
            members={members}
            memberId={changed.id}
            isMe={isMe(changed)}
            isOwner={isOwner}
            onClose={() => setChanged(undefined)}
          />
        )}
      </Modal>
    </Stack>
  );
}

const nameOf = ({ email, id }: Member): string => email ?? id;

function Email({ member, isMe }: { readonly member: Member; readonly isMe: boolean }) {
  return (
    <Group gap={6}>
      <Text fw={500} style={{ overflowWrap: 'anywhere' }}>
        {nameOf(member)}
      </Text>
      {isMe && (
        <Badge variant="outline" color="gray">
          you
        </Badge>
      )}
      {member.status === 'pending' && (
        <Badge variant="light" color="orange" title="Nobody with this address has signed in yet.">
          invited
        </Badge>
      )}
    </Group>
  );
}
