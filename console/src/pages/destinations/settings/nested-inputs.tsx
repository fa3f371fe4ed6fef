import { ActionIcon, Button, Fieldset, Group, Input, Select, Stack, TextInput, Tooltip } from '@mantine/core';
import { Cross2Icon, PlusIcon } from '@radix-ui/react-icons';
import { chosenOf, type Draft, emptyDraft, isDraftObject, pairsOf } from './drafts.ts';
import type { Field } from './fields.ts';
import { descriptionOf, partOf, SettingInput, type SettingProps } from './setting-input.tsx';

type Of<Kind extends Field['kind']> = SettingProps<Field & { readonly kind: Kind }>;

/** The fields of an object. */
export function GroupInput({ field, path, draft, onChange, access }: Of<'group'>) {
  const fields = (
    <Stack gap="md">
      {field.fields.map((inner) => (
        <SettingInput
          key={inner.name}
          field={inner}
          path={`${path}.${inner.name}`}
          draft={partOf(draft, inner.name)}
          onChange={(next) => onChange({ ...(isDraftObject(draft) ? draft : {}), [inner.name]: next })}
          access={access}
        />
      ))}
    </Stack>
  );
  return field.title === '' ? fields : <Fieldset legend={field.title}>{fields}</Fieldset>;
}

/** A list of objects, with buttons to add and remove them. */
export function ListInput({ field, path, draft, onChange, access }: Of<'list'>) {
  const items: readonly Draft[] = Array.isArray(draft) ? draft : [];
  const isFull = field.maxItems !== undefined && items.length >= field.maxItems;
  return (
    <Input.Wrapper
      labelElement="div"
      label={field.title}
      description={descriptionOf(field)}
      withAsterisk={field.required}
      error={access.errorOf(path)}
    >
      <Stack gap="xs" mt={4} align="flex-start">
        {items.map((item, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: an item is its place, inputs hold no state of their own
          <Fieldset key={index} legend={`${index + 1}`} w="100%">
            <Stack gap="md">
              <SettingInput
                field={{ ...field.item, title: field.item.kind === 'group' ? '' : field.item.title }}
                path={`${path}.${index}`}
                draft={item}
                onChange={(next) => onChange(items.map((one, at) => (at === index ? next : one)))}
                access={access}
              />
              <Group justify="flex-end">
                <Button
                  size="compact-xs"
                  variant="subtle"
                  color="red"
                  disabled={access.disabled}
                  onClick={() => onChange(items.filter((_, at) => at !== index))}
                >
                  Remove {field.title.toLowerCase()} {index + 1}
                </Button>
              </Group>
            </Stack>
          </Fieldset>
        ))}
        <Button
          size="xs"
          variant="default"
          leftSection={<PlusIcon aria-hidden />}
          disabled={access.disabled || isFull}
          data-path={path}
          onClick={() => onChange([...items, emptyDraft(field.item)])}
        >
          Add to {field.title.toLowerCase()}
        </Button>
      </Stack>
    </Input.Wrapper>
  );
}

/** Pairs of a name and a value. */
export function PairsInput({ field, path, draft, onChange, access }: Of<'pairs'>) {
  const pairs = pairsOf(draft);
  const change = (index: number, part: object) =>
    onChange(pairs.map((pair, at) => (at === index ? { ...pair, ...part } : pair)));
  return (
    <Input.Wrapper
      labelElement="div"
      label={field.title}
      description={descriptionOf(field)}
      withAsterisk={field.required}
      error={access.errorOf(path)}
    >
      <Stack gap="xs" mt={4} align="flex-start">
        {pairs.map(({ name, value }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a pair is its place, inputs hold no state of their own
          <Group key={index} gap="xs" wrap="nowrap" w="100%">
            <TextInput
              flex={1}
              aria-label={`Name ${index + 1} of ${field.title.toLowerCase()}`}
              placeholder="Name"
              disabled={access.disabled}
              value={name}
              onChange={({ currentTarget }) => change(index, { name: currentTarget.value })}
            />
            <TextInput
              flex={2}
              aria-label={`Value ${index + 1} of ${field.title.toLowerCase()}`}
              placeholder="Value"
              autoComplete="off"
              disabled={access.disabled}
              value={value}
              onChange={({ currentTarget }) => change(index, { value: currentTarget.value })}
            />
            <Tooltip label="Remove">
              <ActionIcon
                variant="subtle"
                color="gray"
                aria-label={`Remove ${name === '' ? `pair ${index + 1}` : name}`}
                disabled={access.disabled}
                onClick={() => onChange(pairs.filter((_, at) => at !== index))}
              >
                <Cross2Icon />
              </ActionIcon>
            </Tooltip>
          </Group>
        ))}
        <Button
          size="xs"
          variant="default"
          leftSection={<PlusIcon aria-hidden />}
          disabled={access.disabled}
          data-path={path}
          onClick={() => onChange([...pairs, { name: '', value: '' }])}
        >
          Add to {field.title.toLowerCase()}
        </Button>
      </Stack>
    </Input.Wrapper>
  );
}

/** A choice of several forms; input in the other forms is kept. */
export function VariantsInput({ field, path, draft, onChange, access }: Of<'variants'>) {
  const { index, variant, value } = chosenOf(field, draft);
  const values = partOf(draft, 'values');
  const drafts = field.variants.map((one, at) =>
    Array.isArray(values) ? ((values[at] as Draft | undefined) ?? emptyDraft(one)) : emptyDraft(one),
  );
  return (
    <Stack gap="xs">
      <Select
        label={field.title === '' ? 'Form' : field.title}
        description={descriptionOf(field)}
        withAsterisk={field.required}
        allowDeselect={!field.required}
        clearable={!field.required}
        disabled={access.disabled}
        data-path={path}
        data={field.variants.map(({ title }, at) => ({ value: String(at), label: title }))}
        value={index === -1 ? null : String(index)}
        onChange={(chosen) => onChange({ chosen: chosen ?? '', values: drafts })}
      />
      {variant !== undefined && (
        <SettingInput
          field={variant}
          path={`${path}.values.${index}`}
          draft={value}
          onChange={(next) =>
            onChange({
              chosen: String(index),
              values: drafts.map((one, at) => (at === index ? next : one)),
            })
          }
          access={access}
        />
      )}
    </Stack>
  );
}
