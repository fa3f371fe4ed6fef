import { Code, Group, Table, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useMay } from '../../frame/workspace.tsx';
import { ConfirmButton } from '../../shared/confirm-button.tsx';
import { Timestamp } from '../../shared/timestamp.tsx';
import { AttributeButton } from './attribute-dialog.tsx';
import { writeProfile } from './profile-calls.ts';
import { ActionsHead, ProfileCard, type ProfileCardProps } from './profile-card.tsx';
import { type Attribute, type Category, categoriesOf, textOf } from './profile-record.ts';
import { ValueText } from './value-text.tsx';

/** Number of attributes from which a filter is shown. */
const FILTER_FROM = 15;

/** Attributes by category, with the source of the category and the time of its last write. */
export function AttributesCard({ scope, record, onChanged }: ProfileCardProps) {
  const mayWrite = useMay('editor');
  const [filter, setFilter] = useState('');
  const categories = categoriesOf(record);
  const count = categories.reduce((sum, { attributes }) => sum + Math.max(1, attributes.length), 0);
  const shown = categories.map((category) => filtered(category, filter)).filter((one) => one !== undefined);
  return (
    <ProfileCard
      title="Attributes"
      action={
        mayWrite && (
          <AttributeButton label="Add attribute" scope={scope} record={record} onWritten={onChanged} />
        )
      }
    >
      {count > FILTER_FROM && (
        <TextInput
          aria-label="Filter attributes"
          placeholder="Filter by name or value"
          value={filter}
          onChange={({ currentTarget }) => setFilter(currentTarget.value)}
          maw={320}
        />
      )}
      {count === 0 && <Text c="dimmed">None yet. The traits of an identify event become attributes.</Text>}
      {count > 0 && shown.length === 0 && <Text c="dimmed">Nothing matches this filter.</Text>}
      {shown.length > 0 && (
        <Table.ScrollContainer minWidth={560}>
          <Table aria-label="Attributes" verticalSpacing="xs">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Attribute</Table.Th>
                <Table.Th>Value</Table.Th>
                {mayWrite && <ActionsHead />}
              </Table.Tr>
            </Table.Thead>
            {shown.map((category) => (
              <CategoryRows
                key={category.name}
                category={category}
                mayWrite={mayWrite}
                {...{ scope, record, onChanged }}
              />
            ))}
          </Table>
        </Table.ScrollContainer>
      )}
    </ProfileCard>
  );
}

interface CategoryProps extends ProfileCardProps {
  readonly category: Category;
  readonly mayWrite: boolean;
}

function CategoryRows({ category, mayWrite, ...props }: CategoryProps) {
  const { name, at, origin, attributes } = category;
  const rows: readonly Attribute[] = 'value' in category ? [{ name: '', value: category.value }] : attributes;
  return (
    <Table.Tbody>
      <Table.Tr>
        <Table.Th colSpan={mayWrite ? 3 : 2} scope="rowgroup">
          <Group gap="xs">
            <Code>{name}</Code>
            <Text size="xs" c="dimmed">
              from {origin}
              {at !== null && (
                <>
                  , last written <Timestamp value={at} relative />
                </>
              )}
            </Text>
          </Group>
        </Table.Th>
      </Table.Tr>
      {rows.map((attribute) => (
        <AttributeRow
          key={attribute.name}
          category={name}
          attribute={attribute}
          mayWrite={mayWrite}
          {...props}
        />
      ))}
      {rows.length === 0 && (
        <Table.Tr>
          <Table.Td colSpan={mayWrite ? 3 : 2}>
            <Text size="sm" c="dimmed">
              No attributes in it
            </Text>
          </Table.Td>
        </Table.Tr>
      )}
    </Table.Tbody>
  );
}

interface RowProps extends ProfileCardProps {
  readonly category: string;
  /** Its name is empty if the category itself is the value. */
  readonly attribute: Attribute;
  readonly mayWrite: boolean;
}

function AttributeRow({ category, attribute, mayWrite, scope, record, onChanged }: RowProps) {
  const { name, value } = attribute;
  const shownName = name === '' ? category : name;
  const remove = async () => {
    const removed = name === '' ? { [category]: null } : { [category]: { [name]: null } };
    await writeProfile(scope, { ucid: record.ucid, upsert: { profile: removed } });
    onChanged(`${shownName} is removed`);
  };
  return (
    <Table.Tr>
      <Table.Td style={{ overflowWrap: 'anywhere' }}>{shownName}</Table.Td>
      <Table.Td>
        <ValueText value={value} />
      </Table.Td>
      {mayWrite && (
        <Table.Td>
          <Group gap={4} wrap="nowrap" justify="flex-end">
            {name !== '' && (
              <AttributeButton
                label="Change"
                scope={scope}
                record={record}
                initial={{ category, name, value }}
                onWritten={onChanged}
              />
            )}
            <ConfirmButton
              label="Remove"
              name={`Remove ${shownName}`}
              question={`Remove ${shownName}?`}
              size="compact-xs"
              variant="subtle"
              action={remove}
            >
              The attribute goes. Older values that still arrive do not bring it back, a newer one does.
            </ConfirmButton>
          </Group>
        </Table.Td>
      )}
    </Table.Tr>
  );
}

function filtered(category: Category, filter: string): Category | undefined {
  const wanted = filter.trim().toLowerCase();
  const has = (text: string) => text.toLowerCase().includes(wanted);
  if (wanted === '' || has(category.name)) return category;
  if ('value' in category) return has(textOf(category.value)) ? category : undefined;
  const attributes = category.attributes.filter(({ name, value }) => has(name) || has(textOf(value)));
  return attributes.length === 0 ? undefined : { ...category, attributes };
}
