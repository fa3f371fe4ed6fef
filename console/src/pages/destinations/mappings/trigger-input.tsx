import { Input, MultiSelect, SegmentedControl, Stack, TagsInput, Textarea } from '@mantine/core';
import { useState } from 'react';
import { EVENT_TYPES, type EventType } from '../../../shared/event-fields.ts';
import { simpleTriggerOf, triggerOf } from './trigger.ts';

interface Props {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly error: string | undefined;
  /** Names of recent track events, to choose from. */
  readonly names: readonly string[];
  readonly disabled: boolean;
}

/** For which events a subscription is: types and names to choose where that is all, else the text of the query. */
export function TriggerInput({ value, onChange, error, names, disabled }: Props) {
  const simple = simpleTriggerOf(value);
  const [isText, setIsText] = useState(simple === undefined);
  const canBuild = simple !== undefined || value.trim() === '';
  const chosen = simple ?? { types: [], names: [] };
  const isTrack = chosen.types.length === 1 && chosen.types[0] === 'track';
  const shownAsText = isText || !canBuild;
  return (
    <Input.Wrapper
      labelElement="div"
      label="Trigger"
      description="For which events it runs."
      withAsterisk
      error={shownAsText ? undefined : error}
    >
      <Stack gap="xs" mt={4} align="stretch">
        <SegmentedControl
          aria-label="How the trigger is written"
          size="xs"
          style={{ alignSelf: 'flex-start' }}
          value={shownAsText ? 'text' : 'simple'}
          onChange={(form) => setIsText(form === 'text')}
          data={[
            { value: 'simple', label: 'Types and names', disabled: !canBuild },
            { value: 'text', label: 'Query' },
          ]}
        />
        {shownAsText ? (
          <Textarea
            aria-label="Trigger"
            description="Such as: type = &quot;track&quot; and properties.total > 100"
            autosize
            minRows={1}
            maxRows={8}
            ff="monospace"
            disabled={disabled}
            error={error}
            value={value}
            onChange={({ currentTarget }) => onChange(currentTarget.value)}
          />
        ) : (
          <>
            <MultiSelect
              aria-label="Types of events"
              placeholder={chosen.types.length === 0 ? 'Types of events' : undefined}
              data={[...EVENT_TYPES]}
              disabled={disabled}
              value={[...chosen.types]}
              onChange={(types) => onChange(triggerOf({ types: types as EventType[], names: [] }))}
            />
            {isTrack && (
              <TagsInput
                aria-label="Names of events"
                placeholder={chosen.names.length === 0 ? 'Of any name' : undefined}
                data={[...names]}
                acceptValueOnBlur
                disabled={disabled}
                value={[...chosen.names]}
                onChange={(next) => onChange(triggerOf({ types: ['track'], names: next }))}
              />
            )}
          </>
        )}
      </Stack>
    </Input.Wrapper>
  );
}
