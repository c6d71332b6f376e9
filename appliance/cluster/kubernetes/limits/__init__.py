"""What a namespace says of the resources that its pods ask for."""
