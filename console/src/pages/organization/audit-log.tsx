import { Anchor, Badge, Button, Group, Modal, Select, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import type { Page } from '../../api/client.ts';
import { EmptyState } from '../../shared/empty-state.tsx';
import { type Column, PagedList, restarted } from '../../shared/paged-list.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { changesOf, shortOf } from './audit-changes.ts';
import { AuditDetails } from './audit-details.tsx';
import { type AuditEntry, actorOf, entityNameOf, titleOf } from './audit-entry.ts';
import { type AuditedType, wordsOf } from './audited-types.ts';
import type { AuditFilter } from './search.ts';

/** Maximum number of changes in a row; the details show all of them. */
const SHOWN_CHANGES = 3;
const ACTIONS = [
  'created',
  'added',
  'updated',
  'joined',
  'revoked',
  'removed',
  'archived',
  'deleted',
  'cancelled',
];

interface Props {
  readonly label: string;
  readonly queryKey: readonly unknown[];
  readonly load: (filter: AuditFilter, signal: AbortSignal) => Promise<Page<AuditEntry>>;
  readonly filter: AuditFilter;
  readonly onFilter: (filter: AuditFilter) => void;
  readonly types: readonly AuditedType[];
}

/** The audit log, newest first: each entry names its actor and its changes. */
export function AuditLog({ label, queryKey, load, filter, onFilter, types }: Props) {
  const [shown, setShown] = useState<AuditEntry>();
  const narrow = (change: Readonly<Record<string, string>>) => onFilter(restarted(filter, change));
  return (
    <Stack>
      <PagedList
        label={label}
        queryKey={queryKey}
        load={load}
        search={filter}
        onSearch={onFilter}
        hasText={false}
        minWidth={760}
        columns={columnsOf(narrow, setShown)}
        rowKey={({ id }) => id}
        filters={<Filters filter={filter} narrow={narrow} types={types} />}
        empty={
          <EmptyState title="No changes yet">
            Each change of a setting is listed here, with who made it.
          </EmptyState>
        }
      />
      <Modal
        opened={shown !== undefined}
        onClose={() => setShown(undefined)}
        title={shown === undefined ? '' : titleOf(shown)}
        size="xl"
      >
        {shown !== undefined && <AuditDetails entry={shown} />}
      </Modal>
    </Stack>
  );
}

interface FiltersProps extends Pick<Props, 'filter' | 'types'> {
  readonly narrow: (change: Readonly<Record<string, string>>) => void;
}

function Filters({ filter, narrow, types }: FiltersProps) {
  const { actor, entity_type, entity_id, action, since, until } = filter;
  return (
    <>
      <Select
        aria-label="What was changed"
        placeholder="Anything"
        clearable
        searchable
        data={types.map((type) => ({ value: type, label: wordsOf(type) }))}
        value={entity_type ?? null}
        onChange={(type) => narrow({ entity_type: type ?? '' })}
      />
      <Select
        aria-label="Action"
        placeholder="Any action"
        clearable
        data={action === undefined || ACTIONS.includes(action) ? ACTIONS : [...ACTIONS, action]}
        value={action ?? null}
        onChange={(action) => narrow({ action: action ?? '' })}
      />
      <TextInput
        type="date"
        aria-label="From day"
        leftSection={<Text size="xs">From</Text>}
        leftSectionWidth={44}
        value={since ?? ''}
        onChange={({ currentTarget }) => narrow({ since: currentTarget.value })}
      />
      <TextInput
        type="date"
        aria-label="To day"
        leftSection={<Text size="xs">To</Text>}
        leftSectionWidth={32}
        value={until ?? ''}
        onChange={({ currentTarget }) => narrow({ until: currentTarget.value })}
      />
      {actor !== undefined && (
        <Button variant="light" onClick={() => narrow({ actor: '' })}>
          By one author only: show all
        </Button>
      )}
      {entity_id !== undefined && (
        <Button variant="light" onClick={() => narrow({ entity_id: '' })}>
          Of one entity only: show all
        </Button>
      )}
    </>
  );
}

function columnsOf(
  narrow: FiltersProps['narrow'],
  show: (entry: AuditEntry) => void,
): readonly Column<AuditEntry>[] {
  return [
    { title: 'Time', cell: ({ at }) => <Timestamp value={at} /> },
    {
      title: 'Who',
      cell: ({ actor }) => (
        <NarrowLink label={`Only changes by ${actorOf(actor)}`} onClick={() => narrow({ actor: actor.id })}>
          {actorOf(actor)}
        </NarrowLink>
      ),
    },
    {
      title: 'What',
      cell: (entry) => (
        <Stack gap={2} align="flex-start">
          <Group gap={6}>
            <Badge variant="light" color={colorOf(entry.action)}>
              {wordsOf(entry.action)}
            </Badge>
            <Text size="sm">{wordsOf(entry.entity.type)}</Text>
          </Group>
          <NarrowLink
            label={`Only changes of ${entityNameOf(entry)}`}
            onClick={() => narrow({ entity_id: entry.entity.id })}
          >
            {entityNameOf(entry)}
          </NarrowLink>
        </Stack>
      ),
    },
    { title: 'Changes', cell: (entry) => <Changes entry={entry} onShow={() => show(entry)} /> },
  ];
}

function NarrowLink({
  label,
  onClick,
  children,
}: {
  readonly label: string;
  readonly onClick: () => void;
  readonly children: string;
}) {
  return (
    <Anchor
      component="button"
      type="button"
      size="sm"
      ta="left"
      title={label}
      style={{ overflowWrap: 'anywhere' }}
      onClick={onClick}
    >
      {children}
    </Anchor>
  );
}

function Changes({ entry, onShow }: { readonly entry: AuditEntry; readonly onShow: () => void }) {
  const changes = changesOf(entry.before, entry.after);
  const isChange = entry.before !== null && entry.after !== null;
  return (
    <Stack gap={2} align="flex-start">
      {changes.slice(0, SHOWN_CHANGES).map(({ field, before, after }) => (
        <Text key={field} size="sm" style={{ overflowWrap: 'anywhere' }}>
          <b>{field}</b>: {isChange && <>{shortOf(before, 40) || 'none'} → </>}
          {shortOf(isChange || after !== undefined ? after : before, 40) || 'none'}
        </Text>
      ))}
      <Button variant="subtle" size="compact-xs" px={0} onClick={onShow}>
        {changes.length > SHOWN_CHANGES ? `${changes.length - SHOWN_CHANGES} more, details` : 'Details'}
      </Button>
    </Stack>
  );
}

function colorOf(action: string): string {
  if (['created', 'added', 'joined'].includes(action)) return 'teal';
  return ['revoked', 'removed', 'archived', 'deleted'].includes(action) ? 'red' : 'blue';
}
