import { Button, CloseButton, Group, Input, NativeSelect, Stack, Text, TextInput } from '@mantine/core';
import { PlusIcon } from '@radix-ui/react-icons';
import { valuesBelow } from './event-paths.ts';
import { MemberFields } from './member-fields.tsx';
import {
  CONVERSIONS,
  type ConditionDraft,
  type ConvertedDraft,
  conversionOf,
  type FirstDraft,
  type ItemsDraft,
  NO_PATH,
  partsOf,
  type ValueDraft,
} from './value-draft.ts';
import { PathInput, ValueControl, type ValueProps } from './value-input.tsx';

interface PartProps extends Pick<ValueProps, 'field' | 'onChange' | 'path' | 'access'> {
  /** Its name within the field. */
  readonly name: string;
  readonly draft: ValueDraft;
  readonly isOptional?: boolean;
}

/** A value that another is made of. */
function Part({ name, field, draft, onChange, path, access, isOptional = false }: PartProps) {
  return (
    <ValueControl
      field={{ ...field, label: `${field.label}, ${name}` }}
      draft={draft}
      onChange={onChange}
      path={path}
      access={access}
      isPart={!isOptional}
    />
  );
}

export function FirstInput({ draft, onChange, ...props }: ValueProps<FirstDraft>) {
  const { items } = draft;
  const change = (next: readonly ValueDraft[]) => onChange({ mode: 'first', items: next });
  return (
    <Stack gap="xs">
      <Text size="xs" c="dimmed">
        The first that the event has.
      </Text>
      {partsOf(draft).map(([below, item], index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a choice has no other identity
        <Group key={index} gap="xs" wrap="nowrap" align="flex-start">
          <div style={{ flex: 1, minWidth: 0 }}>
            <Part
              {...props}
              name={`choice ${index + 1}`}
              draft={item}
              onChange={(next) => change(items.with(index, next))}
              path={props.path + below}
            />
          </div>
          <CloseButton
            mt={8}
            aria-label={`Remove choice ${index + 1} of ${props.field.label}`}
            disabled={props.access.disabled || items.length === 1}
            onClick={() => change(items.toSpliced(index, 1))}
          />
        </Group>
      ))}
      <Group>
        <Button
          size="xs"
          variant="default"
          leftSection={<PlusIcon aria-hidden />}
          disabled={props.access.disabled}
          onClick={() => change([...items, NO_PATH])}
        >
          Add a choice
        </Button>
      </Group>
    </Stack>
  );
}

export function ConditionInput({ draft, onChange, ...props }: ValueProps<ConditionDraft>) {
  const { path, access, field } = props;
  return (
    <Stack gap="xs">
      <NativeSelect
        label="Where the event has"
        aria-label={`Condition of ${field.label}`}
        w={{ base: '100%', xs: 'fit-content' }}
        disabled={access.disabled}
        data={[
          { value: 'exists', label: 'this value' },
          { value: 'blank', label: 'this value, not empty' },
        ]}
        value={draft.test}
        onChange={({ currentTarget }) =>
          onChange({ ...draft, test: currentTarget.value === 'blank' ? 'blank' : 'exists' })
        }
      />
      <Part
        {...props}
        name="condition"
        draft={draft.of}
        onChange={(of) => onChange({ ...draft, of })}
        path={`${path}/@if/${draft.test}`}
      />
      <Input.Label labelElement="div">it is</Input.Label>
      <Part
        {...props}
        name="then"
        draft={draft.met}
        onChange={(met) => onChange({ ...draft, met })}
        path={`${path}/@if/then`}
      />
      <Input.Label labelElement="div">otherwise</Input.Label>
      <Part
        {...props}
        name="otherwise"
        isOptional
        draft={draft.unmet}
        onChange={(unmet) => onChange({ ...draft, unmet })}
        path={`${path}/@if/else`}
      />
    </Stack>
  );
}

export function ItemsInput({ field, draft, onChange, path, access, made }: ValueProps<ItemsDraft>) {
  const list = access.values.get(draft.from);
  const values = valuesBelow(Array.isArray(list) ? list[0] : list);
  const first = Array.isArray(made?.value) ? { value: made.value[0] as unknown } : undefined;
  return (
    <Stack gap="sm">
      <Input.Wrapper labelElement="div" label="List" description="The event field that it is.">
        <PathInput
          shared={{
            'aria-label': `List of ${field.label}`,
            flex: 1,
            w: '100%',
            miw: 0,
            disabled: access.disabled,
            error: undefined,
          }}
          access={access}
          text={draft.from}
          onChange={(from) => onChange({ ...draft, from })}
        />
      </Input.Wrapper>
      <Text size="xs" c="dimmed">
        Of each item an object is made; event fields begin at the item.
      </Text>
      <MemberFields
        field={field}
        draft={draft.shape}
        onChange={(shape) => onChange({ ...draft, shape })}
        path={`${path}/@arrayPath/1`}
        access={{ ...access, values, paths: [] }}
        made={first}
      />
    </Stack>
  );
}

const WORDS: Readonly<Record<string, string>> = {
  pattern: 'Text to replace',
  replacement: 'Replacement',
  separator: 'Between the names',
};

export function ConvertedInput({ draft, onChange, ...props }: ValueProps<ConvertedDraft>) {
  const { field, path, access } = props;
  const { directive, argument, value } = draft;
  const conversion = conversionOf(draft);
  return (
    <Stack gap="xs">
      <Part
        {...props}
        name="converted"
        draft={value}
        onChange={(next) => onChange({ ...draft, value: next })}
        path={`${path}/${directive}/value`}
      />
      <NativeSelect
        label="To"
        aria-label={`Conversion of ${field.label}`}
        disabled={access.disabled}
        data={CONVERSIONS.map(({ label }) => label)}
        value={conversion?.label}
        onChange={({ currentTarget }) => {
          const to = CONVERSIONS.find(({ label }) => label === currentTarget.value);
          if (to === undefined) return;
          const texts = to.texts.map((name) => [name, name === 'separator' ? '.' : '']);
          onChange({
            ...draft,
            directive: to.directive,
            argument: { ...to.fixed, ...Object.fromEntries(texts), value: null },
          });
        }}
      />
      {conversion?.texts.map((name) => (
        <TextInput
          key={name}
          label={WORDS[name]}
          aria-label={`${WORDS[name]} of ${field.label}`}
          autoComplete="off"
          disabled={access.disabled}
          value={String(argument[name])}
          onChange={({ currentTarget }) =>
            onChange({ ...draft, argument: { ...argument, [name]: currentTarget.value } })
          }
        />
      ))}
    </Stack>
  );
}
