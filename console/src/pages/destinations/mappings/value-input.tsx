import {
  Autocomplete,
  Flex,
  Group,
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
import type { Values } from './event-paths.ts';
import { MemberFields } from './member-fields.tsx';
import { ConditionInput, ConvertedInput, FirstInput, ItemsInput } from './part-inputs.tsx';
import { type ActionField, isRequired } from './subscription-draft.ts';
import {
  constantsIn,
  inMode,
  type Literal,
  NONE,
  type ObjectDraft,
  partsOf,
  pointerOf,
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
  /** The values of the event of the preview. */
  readonly values: Values;
  /** Whether values are the same for each event. */
  readonly isConstant: boolean;
  /** The faults at a JSON pointer below the mapping and below it, without those at places that show their own. */
  readonly errorOf: (path: string, elsewhere?: readonly string[]) => string | undefined;
  readonly disabled: boolean;
  /** Asks the vendor for the choices of its dynamic fields. */
  readonly ask: AskVendor;
  /** What its choices depend on beside the mapping. */
  readonly askOf: readonly unknown[];
}

/** What a value is for the event of the preview; undefined where the event has none. */
export interface Made {
  readonly value: unknown;
}

export interface ValueProps<D extends ValueDraft = ValueDraft> {
  readonly field: ActionField;
  readonly draft: D;
  readonly onChange: (draft: ValueDraft) => void;
  /** JSON pointer below the mapping. */
  readonly path: string;
  readonly access: MappingAccess;
  /** Absent while it is not known. */
  readonly made?: Made | undefined;
}

const MODES: Readonly<Record<ValueMode, string>> = {
  none: 'Not set',
  literal: 'Value',
  path: 'Event field',
  template: 'Template',
  first: 'First of several',
  condition: 'Condition',
  items: 'Items of a list',
  object: 'Members',
  converted: 'Converted',
  json: 'JSON',
};

const PROPOSED = 'proposed';

/** A field of a mapping: how its value is made, and of what. */
export function ValueInput(props: ValueProps) {
  const { field, access } = props;
  return (
    <Input.Wrapper
      labelElement="div"
      label={field.label}
      description={<FieldDescription field={field} />}
      withAsterisk={isRequired(field, access.mapping)}
    >
      <ValueControl {...props} />
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

interface ControlProps extends ValueProps {
  /** It is one of the values that another is made of, which cannot be left out. */
  readonly isPart?: boolean;
}

/** The way to make a value, and the input for it. */
export function ValueControl({ isPart = false, ...props }: ControlProps) {
  const { field, draft, onChange, path, access, made } = props;
  const { label, default: proposed } = field;
  const parts = partsOf(draft).map(([below]) => path + below);
  const members =
    draft.mode === 'object' ? (field.fields ?? []).map((one) => path + pointerOf(one.field)) : [];
  const error = access.errorOf(path, [...parts, ...members]);
  const proposal = proposed === undefined || isPart ? undefined : valueDraftOf(proposed as Json);
  const choose = (mode: string) => {
    if (mode === PROPOSED) return onChange(proposal ?? NONE);
    const next = inMode(draft, mode as ValueMode);
    onChange(next.mode === 'literal' ? { mode: 'literal', value: literalFor(field, next.value) } : next);
  };
  const hasInput = ['literal', 'path', 'template'].includes(draft.mode);
  if (access.isConstant && field.type !== 'object' && (draft.mode === 'none' || draft.mode === 'literal'))
    return (
      <Flex mt={4}>
        <Content
          {...props}
          draft={
            draft.mode === 'none' ? { mode: 'literal', value: field.multiple === true ? [] : '' } : draft
          }
          onChange={(next) => onChange(isEmpty(next) ? NONE : next)}
          error={error}
        />
      </Flex>
    );
  return (
    <Stack gap={4} mt={4}>
      <Flex direction={{ base: 'column', xs: hasInput ? 'row' : 'column' }} gap="xs" align="flex-start">
        <NativeSelect
          aria-label={`How ${label} is made`}
          w={{ base: '100%', xs: 160 }}
          disabled={access.disabled}
          data={[
            ...modesOf(field, draft, access.isConstant)
              .filter((mode) => mode !== 'none' || !isPart)
              .map((mode) => ({ value: mode, label: MODES[mode] })),
            ...(proposal === undefined ? [] : [{ value: PROPOSED, label: 'As proposed' }]),
          ]}
          value={draft.mode}
          onChange={({ currentTarget }) => choose(currentTarget.value)}
        />
        <Content {...props} error={hasInput ? error : undefined} />
      </Flex>
      {!hasInput && error !== undefined && <Input.Error>{error}</Input.Error>}
      <MadeText draft={draft} made={made} values={access.values} />
    </Stack>
  );
}

function isEmpty(draft: ValueDraft): boolean {
  return draft.mode === 'literal' && (draft.value === '' || [draft.value].flat().length === 0);
}

/** Characters of a value that are shown. */
const MAX_SHOWN = 200;

function shownValue(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value).slice(0, MAX_SHOWN);
}

/** What the value is for the event of the preview, where the input does not say it. */
function MadeText({ draft, made, values }: Pick<ValueProps, 'draft' | 'made'> & { readonly values: Values }) {
  if (draft.mode === 'none' || draft.mode === 'literal' || draft.mode === 'object') return null;
  const known =
    made ?? (draft.mode === 'path' && values.has(draft.text) ? { value: values.get(draft.text) } : undefined);
  return known === undefined ? null : (
    <Text size="xs" c="dimmed" truncate>
      {'This event: '}
      <Text span inherit ff="monospace">
        {shownValue(known.value)}
      </Text>
    </Text>
  );
}

/** The ways to make a value of the field; the present one is always among them. */
function modesOf(
  { type, multiple = false }: ActionField,
  draft: ValueDraft,
  isConstant: boolean,
): readonly ValueMode[] {
  const isObject = type === 'object';
  const fitting: Readonly<Record<ValueMode, boolean>> = {
    none: true,
    literal: !isObject,
    path: !isConstant,
    template: !isConstant && !isObject && !multiple,
    first: !isConstant,
    condition: !isConstant,
    items: !isConstant && isObject && multiple,
    object: isObject && !multiple,
    converted: !isConstant,
    json: true,
  };
  return (Object.keys(fitting) as ValueMode[]).filter((mode) => fitting[mode] || mode === draft.mode);
}

/** A literal to begin with: of the type of the field where the value before has none. */
function literalFor({ type, multiple }: ActionField, value: Literal): Literal {
  if (multiple === true && !Array.isArray(value)) return value === '' ? [] : [String(value)];
  if (type === 'boolean') return value === true || value === 'true';
  return value;
}

/** The name of a field for its vendor: `list`, `object.member` or `list.[0].member`. */
export function vendorNameOf(path: string): string {
  const fields = path.replaceAll('/@arrayPath/1', '/[0]').replace(/\/@\w+\/\w+/g, '');
  return fields.slice(1).replaceAll('/', '.');
}

function Content(props: ValueProps & { readonly error: string | undefined }) {
  const { field, draft, onChange, path, access, made, error } = props;
  const { label } = field;
  const shared = { flex: 1, w: '100%', miw: 0, disabled: access.disabled, error };
  const inside = (content: React.ReactNode) => (
    <Paper withBorder p="sm" flex={1} w="100%" miw={0}>
      {content}
    </Paper>
  );
  switch (draft.mode) {
    case 'none':
      return null;
    case 'path':
      return (
        <PathInput
          shared={{ ...shared, 'aria-label': `Event field of ${label}` }}
          access={access}
          text={draft.text}
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
    case 'first':
      return inside(<FirstInput {...props} draft={draft} />);
    case 'condition':
      return inside(<ConditionInput {...props} draft={draft} />);
    case 'items':
      return inside(<ItemsInput {...props} draft={draft} />);
    case 'converted':
      return inside(<ConvertedInput {...props} draft={draft} />);
    case 'object':
      return inside(
        <MemberFields
          field={field}
          draft={draft}
          onChange={onChange}
          path={path}
          access={access}
          made={made}
        />,
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

export interface SharedProps {
  readonly 'aria-label': string;
  readonly placeholder?: string;
  readonly flex: number;
  readonly w: string;
  readonly miw: number;
  readonly disabled: boolean;
  readonly error: string | undefined;
}

interface PathProps {
  readonly shared: SharedProps;
  readonly access: Pick<MappingAccess, 'paths' | 'values'>;
  readonly text: string;
  readonly onChange: (text: string) => void;
}

/** A path: those of the event of the preview with their values, then those of other recent events. */
export function PathInput({ shared, access: { paths, values }, text, onChange }: PathProps) {
  return (
    <Autocomplete
      {...shared}
      placeholder="$.properties.total"
      data={[
        { group: 'In this event', items: [...values.keys()] },
        { group: 'In recent events', items: paths.filter((path) => !values.has(path)) },
      ]}
      limit={40}
      maxDropdownHeight={320}
      renderOption={({ option: { value } }) => (
        <Group gap="xs" wrap="nowrap" justify="space-between" w="100%" miw={0}>
          <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
            {value}
          </Text>
          {values.has(value) && (
            <Text size="xs" c="dimmed" truncate maw="50%">
              {shownValue(values.get(value))}
            </Text>
          )}
        </Group>
      )}
      value={text}
      onChange={onChange}
    />
  );
}

interface LiteralProps {
  readonly shared: SharedProps;
  readonly field: ActionField;
  readonly value: Literal;
  readonly onChange: (value: Literal) => void;
  readonly dynamic: { readonly path: string; readonly access: MappingAccess };
}

const FLAGS = [true, false].map((value) => ({ value, label: String(value) }));

function LiteralInput({ shared, field, value, onChange, dynamic }: LiteralProps) {
  const { type } = field;
  const isFlag = type === 'boolean' || typeof value === 'boolean';
  const choices = field.choices ?? (isFlag ? FLAGS : []);
  const { path, access } = dynamic;
  if (field.dynamic === true)
    return (
      <DynamicInput
        shared={shared}
        field={vendorNameOf(path)}
        payload={constantsIn(access.mapping, path)}
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
        clearable={access.isConstant}
        value={value === '' ? null : String(value)}
        onChange={(chosen) => {
          const found = choices.find((one) => String(one.value) === chosen)?.value;
          onChange(typeof found === 'number' || typeof found === 'boolean' ? found : (chosen ?? ''));
        }}
      />
    );
  }
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
