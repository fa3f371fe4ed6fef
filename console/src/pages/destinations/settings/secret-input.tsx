import { Alert, Button, Group, Input, PasswordInput, Stack, Text } from '@mantine/core';
import { type Draft, emptyDraft, secretOf } from './drafts.ts';
import { descriptionOf, PlainInput, type SettingProps } from './setting-input.tsx';

/** A setting that the API never returns: a stored secret is kept until the person types another one or removes it. */
export function SecretInput({ field, path, draft, onChange, access }: SettingProps) {
  const { stored, state, value } = secretOf(draft);
  const change = (next: Draft | undefined, as: 'kept' | 'removed' | 'stated') => {
    access.clearError(`${path}.value`);
    onChange({ stored, state: as, value: next ?? emptyDraft({ ...field, secret: false }) });
  };
  const remove = stored && !field.required && (
    <Button
      size="compact-xs"
      variant="subtle"
      color="red"
      disabled={access.disabled}
      onClick={() => change(undefined, 'removed')}
    >
      Remove the stored one
    </Button>
  );
  if (state === 'removed')
    return (
      <Alert color="yellow" title={`${field.title}: removed when you save`}>
        <Button size="xs" variant="default" onClick={() => change(undefined, 'kept')}>
          Keep it
        </Button>
      </Alert>
    );
  if (field.kind === 'text')
    return (
      <Stack gap={4} align="stretch">
        <PasswordInput
          label={field.title}
          description={descriptionOf(field)}
          withAsterisk={field.required && !stored}
          error={access.errorOf(`${path}.value`)}
          disabled={access.disabled}
          data-path={`${path}.value`}
          autoComplete="new-password"
          placeholder={stored ? 'Stored. Type to replace it.' : undefined}
          value={typeof value === 'string' ? value : ''}
          onChange={({ currentTarget }) =>
            change(currentTarget.value, stored && currentTarget.value === '' ? 'kept' : 'stated')
          }
        />
        <Group>{remove}</Group>
      </Stack>
    );
  if (state === 'kept')
    return (
      <Input.Wrapper
        labelElement="div"
        label={field.title}
        description={descriptionOf(field)}
        error={access.errorOf(`${path}.value`)}
      >
        <Group gap="xs" mt={4}>
          <Text size="sm">Stored, and not shown.</Text>
          <Button
            size="compact-xs"
            variant="default"
            disabled={access.disabled}
            data-path={`${path}.value`}
            onClick={() => change(undefined, 'stated')}
          >
            Replace
          </Button>
          {remove}
        </Group>
      </Input.Wrapper>
    );
  return (
    <Stack gap={4} align="stretch">
      <PlainInput
        field={{ ...field, secret: false }}
        path={`${path}.value`}
        draft={value}
        onChange={(next) => change(next, 'stated')}
        access={access}
      />
      {stored && (
        <Group>
          <Button size="compact-xs" variant="subtle" onClick={() => change(undefined, 'kept')}>
            Keep the stored one
          </Button>
        </Group>
      )}
    </Stack>
  );
}
