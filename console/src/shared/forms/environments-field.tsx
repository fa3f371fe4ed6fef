import { Checkbox, type CheckboxGroupProps, Group } from '@mantine/core';

interface Props extends Omit<CheckboxGroupProps, 'children' | 'label'> {
  /** Explains the effect of the choice, also of none. */
  readonly description: string;
  readonly disabled: boolean;
}

/** Chooses the environments whose events an entity takes. Takes the input properties of the form. */
export function EnvironmentsField({ disabled, ...group }: Props) {
  return (
    <Checkbox.Group label="Environments" {...group}>
      <Group mt="xs">
        <Checkbox value="production" label="Production" disabled={disabled} />
        <Checkbox value="development" label="Development" disabled={disabled} />
      </Group>
    </Checkbox.Group>
  );
}
