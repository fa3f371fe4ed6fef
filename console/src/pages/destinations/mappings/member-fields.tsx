import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { memo, useRef, useState } from 'react';
import { plural } from '../../../shared/quantities.ts';
import { DynamicInput } from './dynamic-input.tsx';
import { type ActionField, applies, isRequired } from './subscription-draft.ts';
import {
  constantsIn,
  isObject,
  NO_PATH,
  NONE,
  type ObjectDraft,
  partsOf,
  pointerOf,
  type ValueDraft,
} from './value-draft.ts';
import { type Made, type MappingAccess, ValueInput, vendorNameOf } from './value-input.tsx';

interface Props {
  /** The field whose members they are. */
  readonly field: Pick<ActionField, 'label' | 'fields' | 'open' | 'dynamic'>;
  readonly draft: ObjectDraft;
  readonly onChange: (draft: ObjectDraft) => void;
  /** JSON pointer below the mapping. */
  readonly path: string;
  readonly access: MappingAccess;
  /** What the object is for the event of the preview. */
  readonly made?: Made | undefined;
  /** Members that are shown elsewhere. */
  readonly elsewhere?: readonly string[];
}

const NOWHERE: readonly string[] = [];

/**
 * A field is rendered again when something of it changes: an action may have fifty of them. Which members apply depends on the
 * other fields, and the choices of a dynamic one on the settings too.
 */
const Row = memo(ValueInput, (before, after) => {
  const { field, draft, path, access } = after;
  return (
    !isDynamic(field) &&
    before.field === field &&
    before.draft === draft &&
    before.path === path &&
    before.access.paths === access.paths &&
    before.access.values === access.values &&
    before.made?.value === after.made?.value &&
    (before.made === undefined) === (after.made === undefined) &&
    before.access.disabled === access.disabled &&
    before.access.errorOf(path) === access.errorOf(path) &&
    (before.access.mapping === access.mapping ||
      (!hasMembers(draft) && isRequired(field, before.access.mapping) === isRequired(field, access.mapping)))
  );
});

function isDynamic({ dynamic, fields = [] }: ActionField): boolean {
  return dynamic === true || fields.some(isDynamic);
}

function hasMembers(draft: ValueDraft): boolean {
  return draft.mode === 'object' || partsOf(draft).some(([, part]) => hasMembers(part));
}

/** The members of an object: those that are set or required, and on request the others that apply. */
export function MemberFields({ field, draft, onChange, path, access, made, elsewhere = NOWHERE }: Props) {
  // A row that is not rendered again keeps its function, which must change the draft as it is by then.
  const latest = useRef({ draft, onChange });
  latest.current = { draft, onChange };
  // A hook has few inputs, and they have no proposal.
  const [isComplete, setIsComplete] = useState(access.isConstant);
  const [shownAtFirst] = useState(() => new Set(Object.keys(draft.members)));
  const { fields: known = [] } = field;
  const others = Object.keys(draft.members).filter((key) => !known.some((one) => one.field === key));
  const hasError = (one: ActionField) => access.errorOf(path + pointerOf(one.field)) !== undefined;
  const fields = [
    ...known.filter(
      (one) =>
        draft.members[one.field] !== undefined ||
        (one.hidden !== true && applies(one, access.mapping)) ||
        hasError(one),
    ),
    ...others.map((key): ActionField => ({ field: key, label: key, type: 'string' })),
  ].filter((one) => !elsewhere.includes(one.field));
  const isShown = (one: ActionField) =>
    isComplete ||
    shownAtFirst.has(one.field) ||
    draft.members[one.field] !== undefined ||
    isRequired(one, access.mapping) ||
    hasError(one);
  const left = fields.filter((one) => !isShown(one)).length;
  return (
    <Stack gap="md">
      {fields.filter(isShown).map((one) => (
        <Row
          key={one.field}
          field={one}
          draft={draft.members[one.field] ?? NONE}
          onChange={(next) => {
            const { draft: now, onChange: change } = latest.current;
            change({ mode: 'object', members: { ...now.members, [one.field]: next } });
          }}
          path={path + pointerOf(one.field)}
          access={access}
          made={made && { value: isObject(made.value) ? made.value[one.field] : undefined }}
        />
      ))}
      {left > 0 && (
        <Group>
          <Button size="xs" variant="default" onClick={() => setIsComplete(true)}>
            Show {plural(left, 'more field')}
          </Button>
        </Group>
      )}
      {fields.length === 0 && field.open !== true && known.length > 0 && (
        <Text size="sm" c="dimmed">
          No field applies.
        </Text>
      )}
      {(field.open === true || known.length === 0) && !access.disabled && (
        <NewMember
          label={field.label}
          taken={fields.map((one) => one.field)}
          {...(field.dynamic === true && { choices: { path, access } })}
          onAdd={(name) => onChange({ mode: 'object', members: { ...draft.members, [name]: NO_PATH } })}
        />
      )}
    </Stack>
  );
}

interface NewProps {
  readonly label: string;
  readonly taken: readonly string[];
  /** Absent where the vendor has no names to choose from. */
  readonly choices?: Pick<Props, 'path' | 'access'>;
  readonly onAdd: (name: string) => void;
}

function NewMember({ label, taken, choices, onAdd }: NewProps) {
  const [name, setName] = useState('');
  const isTaken = taken.includes(name);
  const canAdd = name !== '' && !isTaken && !name.startsWith('@');
  const add = () => {
    onAdd(name);
    setName('');
  };
  const shared = {
    'aria-label': `Name of a new member of ${label}`,
    placeholder: 'Another name',
    error: isTaken ? 'is there already' : undefined,
  };
  return (
    <Group
      gap="xs"
      align="flex-start"
      onKeyDown={(event) => {
        // A choice is taken by Enter too.
        if (event.key !== 'Enter' || event.defaultPrevented) return;
        event.preventDefault(); // it would save the form
        if (canAdd) add();
      }}
    >
      {choices === undefined ? (
        <TextInput
          {...shared}
          autoComplete="off"
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
        />
      ) : (
        <DynamicInput
          shared={{ ...shared, flex: 1, w: '100%', miw: 0, disabled: false }}
          field={`${vendorNameOf(choices.path)}.__keys__`}
          payload={constantsIn(choices.access.mapping, choices.path)}
          value={name}
          onChange={(next) => setName(String(next))}
          ask={choices.access.ask}
          of={choices.access.askOf}
        />
      )}
      <Button variant="default" disabled={!canAdd} onClick={add}>
        Add
      </Button>
    </Group>
  );
}
