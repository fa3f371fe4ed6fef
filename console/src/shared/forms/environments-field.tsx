import { Checkbox, type CheckboxGroupProps, Group } from '@mantine/core';

interface Props extends Omit<CheckboxGroupProps, 'children' | 'label'> {
  /** What it means that none, or one, is chosen. */
  readonly description: string;
  readonly disabled: boolean;
}

/** The environments whose events something is for. Takes the input properties of the form. */
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
