import {
  Autocomplete,
  Flex,
  Input,
  NativeSelect,
  NumberInput,
  Paper,
  Select,
  Stack,
  TagsInput,
  Text,
  Textarea,
  TextInput,
} from '@mantine/core';
import { CodeEditor } from '../../../shared/code-editor.tsx';
import { MarkdownLine } from '../../../shared/markdown-text.tsx';
import type { Json } from '../settings/fields.ts';
import { type AskVendor, DynamicInput } from './dynamic-input.tsx';
import { MemberFields } from './member-fields.tsx';
import { type ActionField, isRequired, pointerOf } from './subscription-draft.ts';
import {
  inMode,
  NONE,
  type ObjectDraft,
  type ValueDraft,
  type ValueMode,
  valueDraftOf,
} from './value-draft.ts';

/** The parts of the form that every input of a mapping uses. */
export interface MappingAccess {
  /** The whole mapping, by which conditions are decided. */
  readonly mapping: ObjectDraft;
  /** Paths of recent events, to choose from. */
  readonly paths: readonly string[];
  /** The faults at a JSON pointer below the mapping; with `withBelow` those of its members too. */
  readonly errorOf: (path: string, withBelow: boolean) => string | undefined;
  readonly disabled: boolean;
  /** Asks the vendor for the choices of its dynamic fields. */
  readonly ask: AskVendor;
  /** What its choices depend on beside the mapping. */
  readonly askOf: readonly unknown[];
}

interface Props {
  readonly field: ActionField;
  readonly draft: ValueDraft;
  readonly onChange: (draft: ValueDraft) => void;
  /** JSON pointer below the mapping. */
  readonly path: string;
  readonly access: MappingAccess;
}

const MODES: Readonly<Record<ValueMode, string>> = {
  none: 'Not set',
  literal: 'Value',
  path: 'Event field',
  template: 'Template',
  object: 'Members',
  json: 'JSON',
};

const PROPOSED = 'proposed';

/** A field of a mapping: how its value is made, and of what. */
export function ValueInput({ field, draft, onChange, path, access }: Props) {
  const { label, default: proposed } = field;
  const error = access.errorOf(path, draft.mode !== 'object');
  const proposal = proposed === undefined ? undefined : valueDraftOf(proposed as Json);
  const choose = (mode: string) => {
    if (mode === PROPOSED) return onChange(proposal ?? NONE);
    const next = inMode(draft, mode as ValueMode);
    onChange(next.mode === 'literal' ? { mode: 'literal', value: literalFor(field, next.value) } : next);
  };
  return (
    <Input.Wrapper
      labelElement="div"
      label={label}
      description={<FieldDescription field={field} />}
      withAsterisk={isRequired(field, access.mapping)}
      error={draft.mode === 'none' || draft.mode === 'json' || draft.mode === 'object' ? error : undefined}
    >
      <Flex direction={{ base: 'column', xs: 'row' }} gap="xs" mt={4} align="flex-start">
        <NativeSelect
          aria-label={`How ${label} is made`}
          w={{ base: '100%', xs: 130 }}
          disabled={access.disabled}
          data={[
            ...modesOf(field, draft).map((mode) => ({ value: mode, label: MODES[mode] })),
            ...(proposal === undefined ? [] : [{ value: PROPOSED, label: 'As proposed' }]),
          ]}
          value={draft.mode}
          onChange={({ currentTarget }) => choose(currentTarget.value)}
        />
        <Content field={field} draft={draft} onChange={onChange} path={path} access={access} error={error} />
      </Flex>
    </Input.Wrapper>
  );
}

function FieldDescription({
  field: { field, description, type, multiple },
}: {
  readonly field: ActionField;
}) {
  return (
    <Text span inherit style={{ overflowWrap: 'anywhere' }}>
      {description !== undefined && (
        <>
          <MarkdownLine>{description}</MarkdownLine>
          {' · '}
        </>
      )}
      <Text span inherit ff="monospace">
        {field}
      </Text>
      {` · ${multiple === true ? 'list of ' : ''}${type}`}
    </Text>
  );
}

/** The ways to make a value of the field; the present one is always among them. */
function modesOf({ type, multiple }: ActionField, draft: ValueDraft): readonly ValueMode[] {
  const isObject = type === 'object';
  const fitting: Readonly<Record<ValueMode, boolean>> = {
    none: true,
    literal: !isObject,
    path: true,
    template: !isObject && multiple !== true,
    object: isObject && multiple !== true,
    json: true,
  };
  return (Object.keys(fitting) as ValueMode[]).filter((mode) => fitting[mode] || mode === draft.mode);
}

/** The values of a mapping that are the same for each event, without the one at the path. */
function literalsIn({ members }: ObjectDraft, path: string): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(members).flatMap(([key, draft]) =>
      draft.mode === 'literal' && path !== pointerOf(key) ? [[key, draft.value] as const] : [],
    ),
  );
}

type Literal = Extract<ValueDraft, { mode: 'literal' }>['value'];

/** A literal to begin with: of the type of the field where the value before has none. */
function literalFor({ type, multiple }: ActionField, value: Literal): Literal {
  if (multiple === true && !Array.isArray(value)) return value === '' ? [] : [String(value)];
  if (type === 'boolean') return value === true || value === 'true';
  return value;
}

function Content({
  field,
  draft,
  onChange,
  path,
  access,
  error,
}: Props & { readonly error: string | undefined }) {
  const { label } = field;
  const shared = { flex: 1, w: '100%', miw: 0, disabled: access.disabled, error };
  switch (draft.mode) {
    case 'none':
      return null;
    case 'path':
      return (
        <Autocomplete
          {...shared}
          aria-label={`Event field of ${label}`}
          placeholder="$.properties.total"
          data={[...access.paths]}
          limit={40}
          value={draft.text}
          onChange={(text) => onChange({ mode: 'path', text })}
        />
      );
    case 'template':
      return (
        <TextInput
          {...shared}
          aria-label={`Template of ${label}`}
          placeholder="{{properties.first}} {{properties.last}}"
          autoComplete="off"
          value={draft.text}
          onChange={({ currentTarget }) => onChange({ mode: 'template', text: currentTarget.value })}
        />
      );
    case 'object':
      return (
        <Paper withBorder p="sm" flex={1} w="100%" miw={0}>
          <MemberFields field={field} draft={draft} onChange={onChange} path={path} access={access} />
        </Paper>
      );
    case 'json':
      return (
        <Stack flex={1} w="100%" miw={0} gap={4}>
          <CodeEditor
            language="json"
            label={`JSON of ${label}`}
            minHeight="3rem"
            maxHeight="20rem"
            value={draft.text}
            onChange={access.disabled ? undefined : (text) => onChange({ mode: 'json', text })}
          />
        </Stack>
      );
    case 'literal':
      return (
        <LiteralInput
          dynamic={{ path, access }}
          shared={{ ...shared, 'aria-label': `Value of ${label}` }}
          field={field}
          value={draft.value}
          onChange={(value) => onChange({ mode: 'literal', value })}
        />
      );
  }
}

interface LiteralProps {
  readonly shared: {
    readonly 'aria-label': string;
    readonly flex: number;
    readonly w: string;
    readonly miw: number;
    readonly disabled: boolean;
    readonly error: string | undefined;
  };
  readonly field: ActionField;
  readonly value: Literal;
  readonly onChange: (value: Literal) => void;
  readonly dynamic: { readonly path: string; readonly access: MappingAccess };
}

function LiteralInput({ shared, field, value, onChange, dynamic }: LiteralProps) {
  const { type, choices = [] } = field;
  const { path, access } = dynamic;
  if (field.dynamic === true && typeof value !== 'object')
    return (
      <DynamicInput
        shared={shared}
        field={path.slice(1).replaceAll('/', '.')}
        payload={literalsIn(access.mapping, path)}
        value={value}
        onChange={onChange}
        ask={access.ask}
        of={access.askOf}
      />
    );
  if (Array.isArray(value))
    return (
      <TagsInput
        {...shared}
        data={choices.map((one) => String(one.value))}
        value={[...value]}
        onChange={onChange}
        acceptValueOnBlur
      />
    );
  if (choices.length > 0) {
    const known = choices.map((one) => ({ value: String(one.value), label: String(one.label) }));
    const isKnown = value === '' || known.some((one) => one.value === String(value));
    return (
      <Select
        {...shared}
        data={isKnown ? known : [...known, { value: String(value), label: String(value) }]}
        searchable={known.length > 8}
        value={value === '' ? null : String(value)}
        onChange={(chosen) => {
          const found = choices.find((one) => String(one.value) === chosen)?.value;
          onChange(typeof found === 'number' || typeof found === 'boolean' ? found : (chosen ?? ''));
        }}
      />
    );
  }
  if (typeof value === 'boolean')
    return (
      <NativeSelect
        {...shared}
        data={['true', 'false']}
        value={String(value)}
        onChange={({ currentTarget }) => onChange(currentTarget.value === 'true')}
      />
    );
  if ((type === 'number' || type === 'integer') && (typeof value === 'number' || value === ''))
    return <NumberInput {...shared} allowDecimal={type === 'number'} value={value} onChange={onChange} />;
  if (type === 'text')
    return (
      <Textarea
        {...shared}
        autosize
        maxRows={12}
        value={String(value)}
        onChange={({ currentTarget }) => onChange(currentTarget.value)}
      />
    );
  return (
    <TextInput
      {...shared}
      autoComplete="off"
      value={String(value)}
      onChange={({ currentTarget }) => onChange(currentTarget.value)}
    />
  );
}
